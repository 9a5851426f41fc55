"""Polish: local search around a candidate. One part of it after another is masked and written anew, a symbol longer or
shorter too; what the score prefers takes its place, several parts at once where each of them helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from anyorder.text.batching import Progress
from anyorder.text.plan import Plan
from anyorder.text.results import Hypothesis
from anyorder.text.rows import Canvas, Input

if TYPE_CHECKING:
    from anyorder.text.generator import Generator

WIDTHS = (2, 3)  # symbols written anew at once, round by round in turn
TOGETHER = 16  # inputs searched at once
REWRITING = Plan.of(beam=4)  # how a part is written: the surest position first, in four ways


def polished(
    generator: Generator,
    inputs: Sequence[Input],
    found: Sequence[Sequence[Hypothesis]],
    plan: Plan,
    progress: Progress,
) -> list[list[Hypothesis]]:
    """The hypotheses of each input, and those that local search finds around its best.

    Some inputs at a time, so that `progress` hears of them.
    """
    out = [list(hypotheses) for hypotheses in found]
    for start in range(0, len(out), TOGETHER):
        some = range(start, min(start + TOGETHER, len(out)))
        _search(generator, inputs, {n: out[n] for n in some if out[n]}, plan)
        progress(len(some))
    return out


def _search(generator: Generator, inputs: Sequence[Input], out: dict[int, list[Hypothesis]], plan: Plan) -> None:
    """What is found joins `out`. An input is done when no width of window improves it, or after the last round."""
    mask_id = generator.model.mask_id
    idle = dict.fromkeys(out, 0)  # rounds since an input was last improved

    def judge(new: dict[tuple[int, tuple[int, ...]], Hypothesis]) -> None:
        """New hypotheses, by input and symbols, join the others with their scores."""
        scores = generator.judge([(inputs[n].source, ids) for n, ids in new], plan)
        for ((n, _), h), value in zip(new.items(), scores, strict=True):
            out[n].append(replace(h, score=value))

    for turn in range(plan.polish):
        best = {n: max(out[n], key=lambda h: h.score) for n in idle}
        opened = {
            n: [Canvas(c, h.log_length) for c in reopened(h.ids, WIDTHS[turn % len(WIDTHS)], mask_id, generator.room)]
            for n, h in best.items()
        }
        asked = [Input(inputs[n].source, tuple(canvases)) for n, canvases in opened.items()]
        known = {(n, h.ids) for n in idle for h in out[n]}
        new: dict[tuple[int, tuple[int, ...]], Hypothesis] = {}  # each once
        for (n, canvases), written in zip(opened.items(), generator.write(asked, REWRITING), strict=True):
            for canvas, ways in zip(canvases, written, strict=True):
                for h in ways:
                    if (n, h.ids) not in known:
                        new.setdefault((n, h.ids), joined(best[n], h, canvas, mask_id))
        judge(new)
        together = {
            (n, h.ids): h
            for n, parent in best.items()
            for h in combined(parent, [h for h in out[n] if (n, h.ids) in new and h.score > parent.score])
            if (n, h.ids) not in known and (n, h.ids) not in new
        }
        judge(together)
        idle = {n: 0 if max(h.score for h in out[n]) > best[n].score else idle[n] + 1 for n in idle}
        idle = {n: rounds for n, rounds in idle.items() if rounds < len(WIDTHS)}


def reopened(ids: Sequence[int], width: int, mask_id: int, longest: int) -> list[tuple[int, ...]]:
    """Canvases like `ids` but for a window of `width` symbols, where there are as many masks, one fewer or one more."""
    found: dict[tuple[int, ...], None] = {}  # in order, each once
    for start in range(max(1, len(ids) - width + 1)):
        stop = min(len(ids), start + width)
        for masks in range(max(1, stop - start - 1), stop - start + 2):
            canvas = (*ids[:start], *[mask_id] * masks, *ids[stop:])
            if len(canvas) <= longest:
                found[canvas] = None
    return list(found)


def joined(old: Hypothesis, new: Hypothesis, canvas: Canvas, mask_id: int) -> Hypothesis:
    """`new`, written where its canvas was masked, as what has become of `old`: the path goes on from there."""
    start = canvas.tokens.index(mask_id)
    stop = start + canvas.tokens.count(mask_id)
    logp = (*old.logp[:start], *new.logp[start:stop], *old.logp[len(old.logp) - (len(canvas.tokens) - stop) :])
    return replace(new, logp=logp, path_score=old.path_score + new.path_score - canvas.log_length)


def difference(old: Sequence[int], new: Sequence[int]) -> tuple[int, int, int]:
    """old[start:stop] became new[start:end]: (start, stop, end), of all such the shortest."""
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - start
    same = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    return start, len(old) - same, len(new) - same


def combined(parent: Hypothesis, better: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Changes of `parent` that help alone, made together: the best two that do not touch, the best three, …"""
    chosen: list[tuple[int, int, int, Hypothesis]] = []
    out: list[Hypothesis] = []
    for h in sorted(better, key=lambda h: -h.score):
        start, stop, end = difference(parent.ids, h.ids)
        if all(stop < other[0] or other[1] < start for other in chosen):
            chosen.append((start, stop, end, h))
            if len(chosen) > 1:
                out.append(_changed(parent, sorted(chosen, key=lambda c: -c[0])))
    return out


def _changed(parent: Hypothesis, changes: Sequence[tuple[int, int, int, Hypothesis]]) -> Hypothesis:
    """`parent` with changes made from right to left."""
    ids, logp, path = parent.ids, parent.logp, parent.path_score
    for start, stop, end, h in changes:
        ids = ids[:start] + h.ids[start:end] + ids[stop:]
        logp = logp[:start] + h.logp[start:end] + logp[stop:]
        path += h.path_score - parent.path_score
    return replace(parent, ids=ids, logp=logp, path_score=path)
