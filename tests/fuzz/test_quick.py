"""The quick profile of the fuzzer: some cases of every family, from seeds that are always the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import harness
from tests.fuzz.families import FAMILIES, Family
from tests.fuzz.worker import piece
from tests.fuzz.world import World

CASES = {
    "plans": 150,
    "masks": 40,
    "configurations": 60,
    "traces": 20,
    "checkpoints": 15,
    "commands": 40,
    "training": 4,
    "processes": 1,
}  # the others take longer


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("fuzz") / "world") as made:
        yield made


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_every_answer_is_one_that_may_be_given(world: World, family: Family) -> None:
    cases = CASES.get(family.name, 12)
    tried = piece(world, family, cases, 20)
    assert not tried.broken and sum(tried.ended.values()) >= min(cases, 5)


def test_a_wrong_answer_is_noticed(world: World, tmp_path: Path) -> None:
    """The check of the checks: a family whose command line makes a mistake of ours is broken."""
    bad = Family("bad", 1, "", lambda w: FAMILIES[0].draw(w), lambda w, case: str(1 / 0))
    tried = piece(world, bad, 5, 1)
    assert tried.ended["broken"] == len(tried.broken) > 0 and "ZeroDivisionError" in tried.broken[0]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say what a process takes")
def test_a_process_answers_for_its_own_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = bytearray(b"1") * (400 << 20)  # more than the limit below
    monkeypatch.setattr(harness, "MEGABYTES", 150)
    assert harness.run_apart(["--version"], b"", tmp_path).code == 0 and ours
    monkeypatch.setattr(harness, "MEGABYTES", 2)
    with pytest.raises(harness.Broken, match="MB of memory"):
        harness.run_apart(["--version"], b"", tmp_path)
