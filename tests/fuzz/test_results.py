"""Every seed of a campaign has a part of its own, and the page has all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fuzz import results


def test_a_second_seed_is_added(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    for seed in (1, 2):
        part = results.part_of(path, "fuzz", seed)
        fresh: dict[str, Any] = {"seed": seed, "families": {}, "broken": [], "mended": []}
        state = results.read(path, part, fresh)
        assert state == fresh
        state["families"]["plans"] = {"about": "x", "ended": {"ok": seed}, "seconds": 1.0}
        results.write(path, part, state)
    assert results.read(path, results.part_of(path, "fuzz", 1), {})["families"]["plans"]["ended"] == {"ok": 1}
    page = path.with_suffix(".md").read_text()
    assert "--seed 1`: 1 cases" in page and "## Fuzzing, again with seed 2" in page


def test_what_was_mended_is_told_from_what_held_at_once(tmp_path: Path) -> None:
    entry = {"job": "map", "fault": "SIGINT", "n": 3, "what": "a line was lost"}
    counts = {"SIGINT": {"times": 17, "struck": 12, "equal": 16}, "kill -9": {"times": 17, "struck": 13, "equal": 17}}
    state = {"seed": 1, "jobs": {"map": counts}, "broken": [], "mended": [entry]}
    results.write(tmp_path / "found.json", "chaos", state)
    page = (tmp_path / "found.md").read_text()
    assert "34 of 34 were equal: 33 at once, 1 not before" in page and "to this day: 0" in page
    assert "| map | SIGINT | 17 | 12 | 16, 1 more once mended |" in page and "| kill -9 | 17 | 13 | 17 |" in page
    results.write(tmp_path / "found.json", "chaos", {**state, "broken": [entry], "mended": []})
    page = (tmp_path / "found.md").read_text()
    assert "33 of 34 were equal. Not equal to this day: 1" in page and "| map | SIGINT | 17 | 12 | 16 |" in page
