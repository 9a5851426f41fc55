"""Validation by translation: the best ids of a generator, and BLEU on the first sentences of the validation pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyorder.core import Length
from anyorder.errors import extra
from anyorder.text.generator import Generator
from anyorder.text.plan import Plan
from anyorder.text.rows import Input

STEPS, LENGTHS = 10, 4  # of mask-predict


def plan_of(model: Any, beam_size: int = 1) -> Plan:
    """How a model in training translates: mask-predict in a constant number of steps, or autoregressively to <eos>."""
    if model.kind == "autoregressive":
        return Plan.of(beam=beam_size)
    if model.kind == "alignment":
        return Plan.of("refinement(2)", prefix_beam=1)
    return Plan.of(f"mask-predict({STEPS})", lengths=LENGTHS, rescore="written")


def plans_of(model: Any) -> dict[str, Plan]:
    """The plans that validation compares, each with a word on it; on slots one pass beside the usual two."""
    more = {", one pass": Plan.of("refinement(1)", prefix_beam=1)} if model.kind == "alignment" else {}
    return {"": plan_of(model), **more}


def best_ids(generator: Generator, sources: Sequence[Sequence[int]], plan: Plan) -> list[list[int]]:
    """The translation of each source, without delimiters."""
    found = generator.generate([Input(tuple(source)) for source in sources], plan, scores=False)
    return [list(max(some, key=lambda h: h.score).ids) for some in found]


def bleu(hypotheses: list[str], references: list[str]) -> float:
    """Corpus BLEU on raw text, sacreBLEU's default."""
    with extra("train"):
        import sacrebleu

    return float(sacrebleu.corpus_bleu(hypotheses, [references]).score)


class Scorer:
    """Validation BLEU in both directions, or in the one that is learnt."""

    def __init__(
        self,
        tokenizer: Any,
        languages: Sequence[str],
        references: Sequence[Sequence[str]],  # of either language, line by line
        lengths: dict[str, Length],  # p(L|X) by direction
        longest: int,
        only: str = "",  # a direction; empty: both
    ) -> None:
        self.only = only
        self.tokenizer, self.languages, self.lengths = tokenizer, languages, lengths
        self.references = [list(side) for side in references]
        sides = [tokenizer.encode(lines, k) for lines, k in zip(self.references, languages, strict=True)]
        self.sources = [[ids[:longest] for ids in side] for side in sides]

    def __call__(self, model: Any) -> dict[str, float]:
        """{"de-en": BLEU, "en-de": BLEU} of each plan; of the direction that is learnt, if it is one."""
        model.eval()
        out = {}
        for s, t in ((0, 1), (1, 0)):
            direction = f"{self.languages[s]}-{self.languages[t]}"
            if self.only not in ("", direction):
                continue
            generator = Generator(model, (s, t), self.lengths.get(direction))
            for what, plan in plans_of(model).items():
                ids = best_ids(generator, self.sources[s], plan)
                out[direction + what] = bleu(self.tokenizer.decode(ids, self.languages[t]), self.references[t])
        return out
