"""Orders and counts of one's own: objects, files, entry points of installed packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli_support import build_translator

from anyorder import load
from anyorder.core import Feature, negent
from anyorder.core.count import Count, number
from anyorder.errors import PlanError
from anyorder.serve.how import HowMany, plan
from anyorder.text import own_orders
from anyorder.text.plan import Plan

backwards = Feature("backwards", lambda state, view: state.place.float())
doubling = number("doubling", lambda state, size: 2**state.step)
sure = Count("sure", lambda state, view, ranked: view.margin > 0.5, reads=frozenset({"margin"}))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_translator(tmp_path_factory.mktemp("own") / "tiny")


def test_an_order_and_a_count_are_taken_as_they_are(model: Path) -> None:
    translator = load(model)
    steps = translator.trace("Ein Hund läuft.", to="en", order=backwards, count=doubling).steps
    assert [len(step.positions) for step in steps[:2]] == [1, 2] and steps[0].positions[0] > steps[-1].positions[-1]
    assert translator.translate("Ein Hund.", to="en", order=negent, count=sure, lengths=1).text is not None
    with pytest.raises(PlanError, match=r"count is a whole number, not 2\.5"):
        Plan.of("easy-first", count=2.5)
    with pytest.raises(PlanError, match="count is a whole number, not Feature"):
        Plan.of("easy-first", count=backwards)


def test_what_one_call_cost(model: Path) -> None:
    translator = load(model)
    translator.translate("Ein Hund.", to="en", lengths=1)
    before = translator.cost
    translator.translate("Zwei Hunde.", to="en", order="left2right", lengths=1)
    spent = translator.cost - before
    assert spent.canvases == spent.forwards > 0 and translator.cost.canvases == before.canvases + spent.canvases


def test_a_file_is_absolute_from_the_start_and_read_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from anyorder.core import negent as mine\n")
    monkeypatch.chdir(tmp_path)
    made = Plan.of("mine.py:mine")
    assert made.order == f"{file}:mine" and made.decoder().coordinates.order is negent
    file.write_text("from anyorder.core import position as mine\n")
    assert Plan.of("mine.py:mine").decoder().coordinates.order is not negent
    both = Plan.of("mine.py:mine | easy-first").check()
    assert len(both.each) == 2


def test_installed_packages_offer_orders_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somebody.py").write_text("from anyorder.core import negent\n\ninward = -negent\n")
    info = tmp_path / "somebody-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[anyorder.orders]\ninward = somebody:inward\nlost = nobody:there\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    own_orders.installed.cache_clear()
    try:
        assert str(Plan.of("inward").decoder().coordinates.order) == str(-negent)
        assert plan(HowMany(order="inward")).order == "inward"  # over HTTP, too: who installed it trusts it
        with pytest.raises(PlanError, match=r"'lost' of nobody:there cannot be loaded: No module named"):
            Plan.of("lost").check()
        with pytest.raises(PlanError, match="did you mean 'inward'"):
            Plan.of("inwards").check()
    finally:
        own_orders.installed.cache_clear()
        sys.modules.pop("somebody", None)


def test_a_request_names_no_files(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("raise SystemExit('run by a request')\n")
    for order in (f"{tmp_path}/mine.py:it", "mine.py:it", "easy-first | mine.py:it"):
        with pytest.raises(Exception, match="files are not read for a request"):
            plan(HowMany(order=order))
