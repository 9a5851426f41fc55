"""The terminal player: what it shows is what the trace says."""

from __future__ import annotations

import io
import re

import pytest
from trace_examples import ORDERS, example

from anyorder.cli import _show
from anyorder.traces.trace import Trace, TraceStep, replay

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("order", [*ORDERS, "insertion"])
def test_frames_follow_the_trace(order: str) -> None:
    trace = example(order)
    frames, canvases = list(_show.frames(trace)), replay(trace)
    assert len(frames) == len(canvases) == len(trace.steps) + 1
    for cells, canvas in zip(frames, canvases, strict=True):
        assert [c.piece.text == _show.BLANK for c in cells] == [token is None for token in canvas]
    assert not any(c.new for c in frames[0])
    for t, (step, cells) in enumerate(zip(trace.steps, frames[1:], strict=True), 1):
        kept = [p for i, p in enumerate(step.logp) if step.positions[i] not in step.erased]
        assert sorted(c.logp for c in cells if c.new and c.logp is not None) == sorted(kept)
        assert all(c.step == t for c in cells if c.new)


def test_plain_lines() -> None:
    steps = [TraceStep(0, [2], ["."], [5], [0.0]), TraceStep(1, [0, 1], ["▁play", "ing"], [6, 7], [-0.6931, -100.0])]
    trace = Trace("mine", [None] * 3, steps, ["▁play", "ing", "."], -1.5, 2, 4, source="Spielen.")
    assert list(_show.plain(trace)) == [
        "Spielen.",
        "0  _ _ _",
        "1  _ _ [.]   (100%)",
        "2  [play][ing].   (50%, 0%)",
        "mine: 2 steps, 2 forward passes, log p = -1.50",
    ]


def test_given_words_stand_from_the_beginning() -> None:
    trace = Trace("x", ["the", None], [TraceStep(0, [1], ["cat"], [1], [-1.0])], ["the", "cat"], -1.0, 1, 1)
    first, last = _show.frames(trace)
    assert [(c.piece.text, c.step) for c in first] == [("the", None), ("_", None)]
    assert [(c.piece.text, c.step, c.new) for c in last] == [("the", None, False), ("cat", 1, True)]


def test_the_player_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    monkeypatch.setenv("TERM", "xterm-256color")
    out, trace = Terminal(), example()
    _show.play(trace, out)
    shown = ANSI.sub("", out.getvalue())
    assert "step 20 of 20" in shown and "laughing." in shown and str(trace.source)[:40] in shown
    assert len(pauses) == 21 and sum(pauses) <= 9
    assert "\x1b[" in out.getvalue() and "log p" in shown


def test_a_picture_is_as_wide_as_the_terminal() -> None:
    cells = list(_show.frames(example()))[-1]
    for width in (20, 40, 200):
        lines = _show.picture(cells, width, 20, 20).plain.split("\n")
        assert max(map(len, lines)) <= width
        assert (
            "".join("".join(lines[:-1:2]).split()) == "Twoyoungmenareplayingsocceronthebeachonasunnyafternoon,laughing."
        )
