"""Local search: it opens one window at a time, keeps what scores better, and never ends below where it began."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from cli_support import build_translator

import anyorder
from anyorder.errors import PlanError, TextError
from anyorder.text.batching import Progress
from anyorder.text.plan import Plan
from anyorder.text.polish import combined, difference, joined, polished, reopened
from anyorder.text.results import Hypothesis
from anyorder.text.rows import Canvas, Input

Searched = tuple[list[list[Hypothesis]], "Goal"]
MASK, ROOM = 0, 8
GOAL = (1, 2, 3, 4, 5, 6)


def hypothesis(*ids: int, score: float = -9.0) -> Hypothesis:
    return Hypothesis("", ids, (), tuple(float(i) for i in ids), score, -1.0, -0.5)


class Goal:
    """What local search asks of a generator: to write each masked position, and to score what came of it."""

    model = SimpleNamespace(mask_id=MASK)
    room = ROOM

    def __init__(self) -> None:
        self.asked: list[int] = []

    def write(self, inputs: Sequence[Input], plan: Plan) -> list[list[list[Hypothesis]]]:
        """Each masked position gets the goal's symbol: a model that is always right about the position it stands at."""
        self.asked.append(sum(len(i.canvases) for i in inputs))
        return [[[hypothesis(*map(right, enumerate(c.tokens)))] for c in i.canvases] for i in inputs]

    def judge(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], rescore: str) -> list[float]:
        return score(pairs)


def right(place: tuple[int, int]) -> int:
    i, token = place
    return GOAL[i] if token == MASK and i < len(GOAL) else max(token, 1)


def search(found: list[list[Hypothesis]], rounds: int = 8, progress: Progress = lambda n: None) -> Searched:
    goal = Goal()
    inputs = [Input((n + 1,)) for n in range(len(found))]
    return polished(goal, inputs, found, Plan.of(rescore="pll", polish=rounds), progress), goal  # type: ignore[arg-type]


def score(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[float]:
    """− the number of symbols that differ from the goal."""
    return [-sum(a != b for a, b in zip(t, GOAL, strict=False)) - abs(len(t) - len(GOAL)) for _, t in pairs]


def test_every_window_is_opened_with_one_mask_fewer_as_many_and_one_more() -> None:
    assert set(reopened((7, 8, 9), 2, MASK, ROOM)) == {
        (0, 9), (0, 0, 9), (0, 0, 0, 9), (7, 0), (7, 0, 0), (7, 0, 0, 0),
    }  # fmt: skip
    assert reopened((7,), 2, MASK, ROOM) == [(0,), (0, 0)]
    assert all(len(c) <= 3 for c in reopened((7, 8, 9), 2, MASK, 3))


@pytest.mark.parametrize("start", [(9, 9, 9, 9, 9, 9), (1, 2, 3, 9, 9), (1, 2, 3, 4, 5, 6, 6), (1, 9)])
def test_what_is_wrong_is_mended_window_by_window(start: tuple[int, ...]) -> None:
    first = hypothesis(*start, score=score([((), start)])[0])
    told: list[int] = []
    out, _ = search([[first], []], progress=told.append)
    best = max(out[0], key=lambda h: h.score)
    assert best.ids == GOAL and best.score == 0
    assert out[0][0] == first and out[1] == [] and sum(told) == 2
    assert len({h.ids for h in out[0]}) == len(out[0])  # nothing is scored twice


def test_a_sentence_that_nothing_improves_is_left_in_peace() -> None:
    _, goal = search([[hypothesis(*GOAL, score=0.0)]])
    assert len([n for n in goal.asked if n]) == 2  # once with each width


def test_kept_symbols_keep_their_log_p_and_the_path_goes_on() -> None:
    old = hypothesis(5, 6, 7, 8)
    canvas = Canvas((5, MASK, MASK, MASK, 8), -0.5)
    new = Hypothesis("", (5, 1, 2, 3, 8), (), (0.0, -0.1, -0.2, -0.3, 0.0), -1.0, -0.5 - 0.6, -0.5)
    both = joined(old, new, canvas, MASK)
    assert both.logp == (5.0, -0.1, -0.2, -0.3, 8.0)
    assert both.path_score == pytest.approx(old.path_score - 0.6)


def test_changes_that_help_are_made_together() -> None:
    """Two wrong parts, apart from each other: one round mends both."""
    start = (9, 9, 3, 4, 9, 9)
    first = hypothesis(*start, score=score([((), start)])[0])
    out, _ = search([[first]], rounds=1)
    assert max(out[0], key=lambda h: h.score).ids == GOAL


def test_the_shortest_difference() -> None:
    assert difference((1, 2, 3, 4), (1, 5, 3, 4)) == (1, 2, 2)
    assert difference((1, 2, 3), (1, 2, 2, 3)) == (2, 2, 3)
    assert difference((1, 2, 2, 3), (1, 2, 3)) == (2, 3, 2)
    assert difference((1, 2), (1, 2)) == (2, 2, 2)


def test_only_changes_that_do_not_touch_are_combined() -> None:
    parent = Hypothesis("", (1, 2, 3, 4, 5), (), (0.1, 0.2, 0.3, 0.4, 0.5), -9.0, -1.0, 0.0)
    last = Hypothesis("", (1, 2, 3, 4, 8), (), (0.1, 0.2, 0.3, 0.4, 0.6), -5.0, -1.5, 0.0)
    longer = Hypothesis("", (7, 7, 2, 3, 4, 5), (), (0.7, 0.8, 0.2, 0.3, 0.4, 0.5), -6.0, -1.2, 0.0)
    beside = Hypothesis("", (1, 2, 3, 6, 5), (), (0.1, 0.2, 0.3, 0.9, 0.5), -7.0, -1.1, 0.0)
    (both,) = combined(parent, [beside, longer, last])
    assert both.ids == (7, 7, 2, 3, 4, 8)
    assert both.logp == (0.7, 0.8, 0.2, 0.3, 0.4, 0.6) and both.path_score == pytest.approx(-1.7)


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> anyorder.Translator:
    loaded = anyorder.load(build_translator(tmp_path_factory.mktemp("models") / "tiny"))
    assert isinstance(loaded, anyorder.Translator)
    return loaded


def test_never_worse_by_the_score_that_was_asked_for(translator: anyorder.Translator) -> None:
    texts = ["Ein Hund läuft am Strand.", "", "Zwei Kinder spielen im Garten."]
    for rescore in ("ar", "pll"):
        plain = translator.translate(texts, "en", rescore=rescore)
        done: list[int] = []
        better = translator.translate(texts, "en", plan=Plan.of(rescore=rescore, polish=2), progress=done.append)
        assert sum(done) == 3 and better[1].text == ""
        gains = [b.score - a.score for a, b in zip(plain, better, strict=True)]
        assert min(gains) >= 0 and max(gains) > 0
        for found in better:
            for h in found.hypotheses:
                assert len(h.logp) == len(h.ids) == len(h.tokens)
                assert translator.model.mask_id not in h.ids


def test_what_cannot_be_polished_says_so(translator: anyorder.Translator) -> None:
    with pytest.raises(PlanError, match="'both' or 'pll'"):
        Plan.of(polish=1)
    with pytest.raises(PlanError, match="at least 0"):
        Plan.of(polish=-1)
    with pytest.raises(PlanError, match="no single one to show"):
        translator.trace("Ein Hund.", "en", rescore="ar", polish=1)
    assert translator.beside is not None
    with pytest.raises((PlanError, TextError), match="left to right only"):
        translator.beside().translate("Ein Hund.", "en", rescore="pll", polish=1)
