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
