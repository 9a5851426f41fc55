"""Completions: what OpenAI's API calls choices, from a translator (the prompt is the source) or a writer (it goes on).

Everything here runs on a request's own thread; the rows are written by the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyorder.serve.language import detect
from anyorder.serve.refusal import wrong
from anyorder.text.plan import Plan
from anyorder.text.results import Hypothesis, ranked
from anyorder.text.rows import Canvas, Input
from anyorder.text.search import ALTERNATIVES
from anyorder.text.translator import Translator
from anyorder.text.writer import GAP, Writer


@dataclass(frozen=True)
class Choice:
    """One completion, token by token."""

    text: str
    pieces: tuple[str, ...]  # the text in the parts that its tokens are
    logp: tuple[float, ...]  # of each when it was written
    top: tuple[tuple[tuple[str, float], ...], ...]  # the likeliest symbols of each position then, where asked for
    finish: str  # "stop" or "length"


@dataclass(frozen=True)
class Wanted:
    """What is asked about the choices."""

    plan: Plan
    n: int = 1
    tokens: int | None = None  # at most
    stop: tuple[str, ...] = ()
    top: int = 0

    @property
    def samples(self) -> list[Plan]:
        """Drawn texts: one plan for each, with another seed."""
        w = self.plan.writing
        return [replace(self.plan, writing=replace(w, seed=w.seed + k)) for k in range(self.n)]


def translations(model: Translator, text: str, to: str | None, source: str | None, wanted: Wanted) -> list[Choice]:
    """The n best translations, or n that were drawn."""
    if to is None:
        likely = detect(model, text)
        source = max(likely, key=lambda language: likely[language])
        others = [language for language in model.languages if language != source]
        if len(others) != 1:
            raise wrong(f"say which language to translate into: one of {', '.join(others)}", "to")
        to = others[0]
    generator = model.generator(to, source)
    ids = model.tokenizer.encode([text], model.direction(to, source)[0])[0]
    if len(ids) > generator.room:
        raise wrong(f"{len(ids)} tokens, but {model.name} reads at most {generator.room}: split the text")
    if not text.strip():
        return [Choice("", (), (), (), "stop")] * wanted.n
    given, keep = [Input(tuple(ids))], bool(wanted.top)
    found: list[Hypothesis] = []
    if wanted.plan.writing.temperature:
        for plan in wanted.samples:
            found += ranked(generator.generate(given, plan, keep=keep)[0], 1)
    else:
        found += ranked(generator.generate(given, wanted.plan, keep=keep)[0], wanted.n)

    def decode(some: Sequence[int]) -> str:
        return str(model.tokenizer.decode([list(some)], to)[0])

    return [_choice(h.ids, h.logp, decode, wanted, _tops(h, model, h.ids)) for h in found]


def writings(model: Writer, prompt: str, suffix: str | None, wanted: Wanted) -> list[Choice]:
    """n texts that go on from a prompt, or fill the gap before a suffix."""
    length = wanted.tokens or 16
    special = (len(model.canvas("")), model.canvas(prompt))
    room = getattr(model.model, "max_length", None)
    if room is not None and len(special[1]) + length > room:
        raise wrong(f"prompt and completion are {len(special[1]) + length} tokens, and {model.name} has {room}")
    if suffix:
        if GAP in prompt or GAP in suffix:
            raise wrong(f"prompt and suffix can not have {GAP} in them: it is how a gap is written")
        return _infillings(model, prompt, suffix, wanted, length)
    start, end = model.around(prompt)
    mask, keep = model.model.mask_id, bool(wanted.top)
    inputs = [Input(canvases=(Canvas((*start, *[mask] * length, *end), copy=k),)) for k in range(wanted.n)]
    out = []
    for (best, *_), one in zip(model.generator.generate(inputs, wanted.plan, keep=keep), inputs, strict=True):
        at = slice(len(start), len(start) + length)
        assert one.canvases
        out.append(_choice(best.ids[at], best.logp[at], model.plain, wanted, _tops(best, model, best.ids)[at]))
    return [replace(choice, finish=choice.finish if choice.finish == "stop" else "length") for choice in out]


def _infillings(model: Writer, prompt: str, suffix: str, wanted: Wanted, longest: int) -> list[Choice]:
    """Every length of the gap is tried; the best by the pseudo log-likelihood of the whole."""
    words = {name: getattr(wanted.plan.writing, name) for name in wanted.plan.writing.__dataclass_fields__}
    found = model.infill(prompt + GAP + suffix, range(1, longest + 1), wanted.n, **words)
    return [_choice(f.ids, (f.logp / len(f.ids),) * len(f.ids), model.plain, wanted, ()) for f in found]
