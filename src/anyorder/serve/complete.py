"""Completions: what OpenAI's API calls choices. A translator's prompt is the source; a language model's text goes on.

Everything here runs on a request's own thread; the scheduler writes the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from anyorder.options import takes
from anyorder.serve.language import detect
from anyorder.serve.refusal import wrong
from anyorder.text.blanks import GAP
from anyorder.text.language_model import LanguageModel
from anyorder.text.load import translates
from anyorder.text.plan import Plan
from anyorder.text.results import Hypothesis, ranked
from anyorder.text.rows import Canvas, Input
from anyorder.text.rules.rule import ruled
from anyorder.text.translator import Translator

Decode = Callable[[Sequence[int]], str]
Top = tuple[tuple[str, float], ...]  # the likeliest symbols of a position, with log p


@dataclass(frozen=True)
class Choice:
    """One completion, token by token where that was asked for."""

    text: str
    tokens: int  # how many it has
    finish: str  # "stop", or "length" where max_tokens ended it
    pieces: tuple[str, ...] = ()  # the text in the parts that its tokens are
    logp: tuple[float, ...] = ()  # of each when it was written
    top: tuple[Top, ...] = ()  # the likeliest symbols there, then


@dataclass(frozen=True)
class Wanted:
    """What is asked about the choices."""

    plan: Plan
    n: int = 1
    tokens: int | None = None  # at most
    stop: tuple[str, ...] = ()
    top: int | None = None  # symbols to show beside each; None: not even its own log p

    @property
    def samples(self) -> list[Plan]:
        """Drawn texts: one plan for each, with another seed."""
        return [replace(self.plan, seed=self.plan.seed + k) for k in range(self.n)]


@dataclass(frozen=True)
class Way:
    """A prompt for a translator: its ids, and from which language into which."""

    source: str
    to: str
    ids: tuple[int, ...]
    text: str


def way(model: Translator, text: str, to: str | None, source: str | None) -> Way:
    """Where a text is translated to; languages that are not said are told from the text."""
    if to is None:
        if source is None:
            likely = detect(model, text)
            source = max(likely, key=lambda language: likely[language])
        others = [language for language in model.languages if language != source]
        if len(others) != 1:
            raise wrong(f"say which language to translate into: one of {', '.join(others)}", "to")
        to = others[0]
    source, to = model.direction(to, source)
    ids, room = model.tokenizer.encode([text], source)[0], model.generator(to, source).room
    if len(ids) > room:
        raise wrong(f"{len(ids)} tokens, but {model.name} reads at most {room}: split the text", "prompt")
    return Way(source, to, tuple(ids), text)


def translations(model: Translator, asked: Way, wanted: Wanted) -> list[Choice]:
    """The n best translations, or n that were drawn."""
    if not asked.ids:
        return [Choice("", 0, "stop")] * wanted.n
    given = [Input(asked.ids, rule=model.rule(wanted.plan, asked.text))]
    generator, keep = model.generator(asked.to, asked.source), bool(wanted.top)
    if wanted.plan.temperature:
        found = [ranked(generator.generate(given, plan, keep=keep)[0])[0] for plan in wanted.samples]
    else:
        found = list(ranked(generator.generate(given, wanted.plan, keep=keep)[0])[: wanted.n])
    return [cut(h, h.ids, h.logp, speaker(model, asked.to), wanted, _tops(model, h, 0)) for h in found]


def speaker(model: Translator | LanguageModel, to: str | None = None) -> Decode:
    """Ids as a person reads them."""
    if not translates(model):
        return lambda ids: str(model.tokenizer.decode(list(ids), skip_special_tokens=True))
    return lambda ids: str(model.tokenizer.decode([list(ids)], to)[0])


def writings(model: LanguageModel, prompt: str, suffix: str, wanted: Wanted) -> list[Choice]:
    """n texts that go on from a prompt, or fill the gap before a suffix."""
    length, room = wanted.tokens or 16, model.model.max_length
    start, end = model._wrap(model._encode(prompt))
    size = len(start) + len(end) + length + len(model._encode(suffix))
    if room is not None and size > room:
        raise wrong(f"prompt and completion are {size} tokens, and {model.name} was made for {room}", "max_tokens")
    speak = speaker(model)
    if ruled(wanted.plan) and not suffix:
        return _ruled(model, prompt, wanted)
    if suffix:
        return _infillings(model, prompt, suffix, wanted, length)
    canvas = (*start, *[model.model.mask_id] * length, *end)
    inputs = [Input(canvases=(Canvas(canvas, copy=k),)) for k in range(wanted.n)]
    at, out = slice(len(start), len(start) + length), []
    for hypotheses in model.generator.generate(inputs, wanted.plan, keep=bool(wanted.top)):
        best = max(hypotheses, key=lambda h: h.score)
        choice = cut(best, best.ids[at], best.logp[at], speak, wanted, _tops(model, best, len(start)))
        out.append(choice if choice.finish == "stop" and wanted.stop else replace(choice, finish="length"))
    return out


def _ruled(model: LanguageModel, prompt: str, wanted: Wanted) -> list[Choice]:
    """n texts under a rule, of lengths that it has; each is whole, so its end is no cut."""
    if wanted.top is not None:
        raise wrong("log p of each token is not told of a text under a rule: leave out logprobs", "logprobs")
    words = {name: getattr(wanted.plan, name) for name in takes("generate") if name != "nbest"}
    found = model.generate(prompt, n=wanted.n, longest=wanted.tokens, **words)
    said = (_stopped(f.text.removeprefix(prompt), len(f.ids), wanted.stop) for f in found)
    return [replace(choice, finish="stop") for choice in said]


def _infillings(model: LanguageModel, prompt: str, suffix: str, wanted: Wanted, longest: int) -> list[Choice]:
    """Every length of the gap is tried; the best by the pseudo log-likelihood of the whole."""
    if GAP in prompt or GAP in suffix:
        raise wrong(f"prompt and suffix can not have {GAP} in them: it is how a gap is written", "suffix")
    words = {name: getattr(wanted.plan, name) for name in takes("infill") if name != "nbest"}
    found = model.infill(prompt + GAP + suffix, range(1, longest + 1), wanted.n, **words)
    return [_stopped(speaker(model)(f.ids), len(f.ids), wanted.stop) for f in found]


def cut(
    h: Hypothesis, ids: Sequence[int], logp: Sequence[float], decode: Decode, wanted: Wanted, top: Sequence[Top]
) -> Choice:
    """A hypothesis as a choice: at most so many tokens, and nothing after what says stop."""
    size = len(ids) if wanted.tokens is None else min(len(ids), wanted.tokens)
    choice = _stopped(decode(ids[:size]), size, wanted.stop)
    if choice.finish == "length" and size == len(ids):
        choice = replace(choice, finish="stop")
    if wanted.top is None:
        return choice
    parts = pieces(decode, ids[:size])
    while parts and len("".join(parts[:-1])) >= len(choice.text) and choice.text != "".join(parts):
        parts.pop()
    shown = [tuple(some[: wanted.top]) for some in top[: len(parts)]]
    return replace(
        choice, tokens=len(parts), pieces=tuple(parts), logp=tuple(logp[: len(parts)]),
        top=tuple(shown) if wanted.top else (),
    )  # fmt: skip


def _stopped(text: str, size: int, stop: Sequence[str]) -> Choice:
    ends = [at for one in stop if (at := text.find(one)) >= 0]
    return Choice(text[: min(ends)], size, "stop") if ends else Choice(text, size, "length")


def pieces(decode: Decode, ids: Sequence[int]) -> list[str]:
    """The text that each token adds; together they are the text of all."""
    out, before, whole = [], "", decode(ids)
    for k in range(1, len(ids) + 1):
        now = decode(ids[:k])
        same = now if whole.startswith(now) else before  # half a character is not shown
        out.append(same[len(before) :])
        before = same
    if out:
        out[-1] += whole[len(before) :]
    return out


def _tops(model: Translator | LanguageModel, h: Hypothesis, start: int) -> list[Top]:
    """The likeliest symbols of each position when it was last written, from a kept path."""
    if h.path is None:
        return []
    found: dict[int, Top] = {}
    for step in h.path.trace(model._strings, text="").steps:
        for k, position in enumerate(step.positions):
            rivals = step.alternatives[k] if step.alternatives else [(step.tokens[k], step.logp[k])]
            found[position] = tuple((token, float(p)) for token, p in rivals)
    return [found.get(position, ()) for position in range(start, start + len(h.ids))]
