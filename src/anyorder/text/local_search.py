"""Polish: local search around a candidate. One part of it after another is masked and written anew, a symbol longer or
shorter too; what the score prefers takes its place, several parts at once where each of them helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from anyorder.text.batching import Progress
from anyorder.text.candidates import Row
from anyorder.text.plan import Plan
from anyorder.text.results import Hypothesis

WIDTHS = (2, 3)  # symbols written anew at once, round by round in turn
TOGETHER = 16  # sentences searched at once
REWRITING = Plan(beam=4)  # how a part is written: the surest position first, in four ways

Write = Callable[[Sequence[Row]], list[list[Hypothesis]]]  # canvases with masks → ways to write them
Score = Callable[[Sequence[tuple[Sequence[int], Sequence[int]]]], list[float]]  # (source, target) pairs → scores


@dataclass(frozen=True)
class Limits:
    """How far a search goes."""

    rounds: int
    mask_id: int
    longest: int  # symbols of a canvas


def polished(
    found: Mapping[int, list[Hypothesis]],  # sentence → its hypotheses
    sources: Mapping[int, list[int]],
    write: Write,
    score: Score,
    read: Callable[[Sequence[int]], str],  # symbols → text
    limits: Limits,
    progress: Progress,
) -> dict[int, list[Hypothesis]]:
    """The hypotheses of each sentence, and those that local search finds around its best.

    Some sentences at a time, so that `progress` hears of them.
    """
    out = {n: list(hypotheses) for n, hypotheses in found.items()}
    sentences = list(out)
    for start in range(0, len(sentences), TOGETHER):
        some = sentences[start : start + TOGETHER]
        _search({n: out[n] for n in some if out[n]}, sources, write, score, read, limits)
        progress(len(some))
    return out


def _search(
    out: Mapping[int, list[Hypothesis]],
    sources: Mapping[int, list[int]],
    write: Write,
    score: Score,
    read: Callable[[Sequence[int]], str],
    limits: Limits,
) -> None:
    """What is found joins `out`. A sentence is done when no width of window improves it, or after the last round."""
    idle = dict.fromkeys(out, 0)  # rounds since a sentence was last improved
    for turn in range(limits.rounds):
        best = {n: max(out[n], key=lambda h: h.score) for n in idle}
        rows = [
            Row(n, sources[n], len(canvas), h.log_length, canvas)
            for n, h in best.items()
            for canvas in reopened(h.ids, WIDTHS[turn % len(WIDTHS)], limits)
        ]
        known = {(n, h.ids) for n in idle for h in out[n]}
        new: dict[tuple[int, tuple[int, ...]], Hypothesis] = {}  # each once
        for row, ways in zip(rows, write(rows), strict=True):
            for h in ways:
                if (row.sentence, h.ids) not in known:
                    new.setdefault((row.sentence, h.ids), joined(best[row.sentence], h, row, limits.mask_id))
        _judge(new, out, sources, score)
        together = {
            (n, h.ids): replace(h, text=read(h.ids))
            for n, parent in best.items()
            for h in combined(parent, [h for h in out[n] if (n, h.ids) in new and h.score > parent.score])
            if (n, h.ids) not in known and (n, h.ids) not in new
        }
        _judge(together, out, sources, score)
        idle = {n: 0 if max(h.score for h in out[n]) > best[n].score else idle[n] + 1 for n in idle}
        idle = {n: rounds for n, rounds in idle.items() if rounds < len(WIDTHS)}


def _judge(
    new: Mapping[tuple[int, tuple[int, ...]], Hypothesis],
    out: Mapping[int, list[Hypothesis]],
    sources: Mapping[int, list[int]],
    score: Score,
) -> None:
    """`new` hypotheses, by sentence and symbols, join the others with their scores."""
    scores = score([(sources[n], ids) for n, ids in new])
    for ((n, _), h), value in zip(new.items(), scores, strict=True):
        out[n].append(replace(h, score=value))


def reopened(ids: Sequence[int], width: int, limits: Limits) -> list[tuple[int, ...]]:
    """Canvases like `ids` but for a window of `width` symbols, where there are as many masks, one fewer or one more."""
    found: dict[tuple[int, ...], None] = {}  # in order, each once
    for start in range(max(1, len(ids) - width + 1)):
        stop = min(len(ids), start + width)
        for masks in range(max(1, stop - start - 1), stop - start + 2):
            canvas = (*ids[:start], *[limits.mask_id] * masks, *ids[stop:])
            if len(canvas) <= limits.longest:
                found[canvas] = None
    return list(found)


def joined(old: Hypothesis, new: Hypothesis, row: Row, mask_id: int) -> Hypothesis:
    """`new`, written where row's canvas was masked, as what has become of `old`: the path goes on from there."""
    start = row.given.index(mask_id)
    stop = start + row.given.count(mask_id)
    logp = (*old.logp[:start], *new.logp[start:stop], *old.logp[len(old.logp) - (row.length - stop) :])
    return replace(new, logp=logp, path_score=old.path_score + new.path_score - row.log_length)


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
    """`parent` with changes made from right to left; its text is not known yet."""
    ids, tokens, logp, path = parent.ids, parent.tokens, parent.logp, parent.path_score
    for start, stop, end, h in changes:
        ids = ids[:start] + h.ids[start:end] + ids[stop:]
        tokens = tokens[:start] + h.tokens[start:end] + tokens[stop:]
        logp = logp[:start] + h.logp[start:end] + logp[stop:]
        path += h.path_score - parent.path_score
    return replace(parent, ids=ids, tokens=tokens, logp=logp, path_score=path)
