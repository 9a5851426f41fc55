"""Teachers: who translates for distillation. Ours with any model, or CTranslate2 with an autoregressive one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import torch

from anyorder.errors import TooMuchError
from anyorder.models.folder import ModelFolder
from anyorder.text.effort import expected
from anyorder.text.generator import Generator
from anyorder.text.rows import Input
from anyorder.training.checkpoint import TrainingError
from anyorder.training.validation import plan_of

Ids = list[int]
Direction = tuple[int, int]  # source and target language, as indices into the model's
ENGINES = ("anyorder", "ctranslate2")


class Teacher(Protocol):
    """Sources → candidates for each, the best first."""

    def __call__(self, sources: Sequence[Ids], direction: Direction, n: int) -> list[list[Ids]]:
        """The n best translations of each source, as ids, best first."""
        ...


class _Sent:
    """A teacher that is sent elsewhere is loaded there anew, from its folder."""

    made: tuple[ModelFolder, int]

    def __reduce__(self) -> tuple[type, tuple[ModelFolder, int]]:
        return type(self), self.made


class Ours(_Sent):
    """The project's own generator."""

    def __init__(self, folder: ModelFolder, beam: int) -> None:
        self.made = ModelFolder(folder.path.absolute()), beam
        self.model, self.lengths = folder.model(), folder.lengths()
        self.plan = plan_of(self.model, beam)
        self._allow(beam)

    def __call__(self, sources: Sequence[Ids], direction: Direction, n: int) -> list[list[Ids]]:
        """The n best translations of each source, as ids, best first."""
        name = "-".join(self.model.languages[k] for k in direction)
        generator = Generator(self.model, direction, self.lengths.get(name))
        found = generator.generate([Input(tuple(source)) for source in sources], self.plan, scores=False)
        return [[list(h.ids) for h in sorted(some, key=lambda h: -h.score)[:n]] for some in found]

    def _allow(self, beam: int) -> None:
        """Refuse a beam that would be too much, before anything is begun."""
        generator = Generator(self.model, (0, 1))
        longest = [Input((0,) * generator.room)]
        decoders = [(one, generator.decoder(one)) for one in self.plan.each]
        try:
            expected(generator, longest, decoders).allow(self.plan, self.model.kind)
        except TooMuchError as error:
            raise TrainingError(f"beam = {beam}: {str(error).split(':')[0]}; take a smaller beam") from None


class CTranslate2(_Sent):
    """The same autoregressive model in CTranslate2, whose beam search is a little faster on a CPU."""

    def __init__(self, folder: ModelFolder, beam: int) -> None:
        self.made = ModelFolder(folder.path.absolute()), beam
        self.model: Any = folder.model()
        if self.model.kind != "autoregressive":
            raise TrainingError(f'{folder.path}: the engine ctranslate2 is for autoregressive teachers: use "anyorder"')
        self.tokens = folder.tokenizer().tokens(range(self.model.architecture.vocabulary))
        self.beam, self.workers = beam, torch.get_num_threads()
        self.engines: dict[Direction, Any] = {}
        self.making = Lock()

    def __call__(self, sources: Sequence[Ids], direction: Direction, n: int) -> list[list[Ids]]:
        """The n best translations of each source, as ids, best first."""
        from anyorder.models.engines import ctranslate2_candidates

        return ctranslate2_candidates(self._engine(direction), self.model, self.tokens, sources, self.beam, n)

    def _engine(self, direction: Direction) -> Any:
        from anyorder.models.engines import to_ctranslate2, to_hugging_face

        with self.making:  # parts are asked for side by side
            if direction not in self.engines:
                with tempfile.TemporaryDirectory() as aside:  # read when it is made
                    hf = to_hugging_face(self.model, direction)
                    self.engines[direction] = to_ctranslate2(hf, self.tokens, Path(aside), workers=self.workers)
        return self.engines[direction]


def teacher(folder: ModelFolder, engine: str, beam: int, best_of: int = 1) -> Teacher:
    """A teacher by the name of its engine."""
    if engine not in ENGINES:
        raise TrainingError(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
    made = Ours(folder, beam) if engine == "anyorder" else CTranslate2(folder, beam)
    if best_of > beam and made.model.kind == "autoregressive":
        raise TrainingError(f"best_of = {best_of}: a beam of {beam} has no {best_of} candidates: raise beam")
    return made


def nearest(candidates: Sequence[Ids], references: Sequence[Ids]) -> Ids:
    """The candidate of the smallest edit distance to any reference; the first where there are none or all tie."""
    if not references or len(candidates) == 1:
        return candidates[0]
    from rapidfuzz.distance import Levenshtein

    return min(candidates, key=lambda c: min(Levenshtein.distance(c, r) for r in references))
