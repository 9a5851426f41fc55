"""The forecast: a division, against what can be worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyorder.corpus.forecast import START, Rates, layout, layouts, measure, recommended
from anyorder.corpus.job import Job
from anyorder.corpus.task import Task

RATES = Rates(load=5.0, rows=50.0, tokens=750.0, row_bytes=70.0)


def test_time_is_the_start_and_the_work_by_workers() -> None:
    for workers in (1, 10, 100):
        found = layout(1e7, RATES, workers)
        assert found.seconds == pytest.approx(START + 5 + 1e7 / 50 / workers, rel=0.02)
        assert found.busy == pytest.approx(workers * (START + 5) + 1e7 / 50) and 0.98 < found.efficiency <= 1


def test_shards_are_whole() -> None:
    """Of a few rows there is one shard, which one worker does, however many there are."""
    one, many = layout(100, RATES, 1), layout(100, RATES, 64)
    assert one.seconds == many.seconds == pytest.approx(START + 5 + 2) and many.busy == one.busy


def test_more_workers_are_recommended_for_more_rows() -> None:
    few, many = (recommended(layouts(rows, RATES)).workers for rows in (1e4, 1e9))
    assert few < 16 < many
    assert layout(1e300, RATES, 64).seconds == pytest.approx(1e300 / 50 / 64)


def test_rates_are_measured_on_the_input(models: Path, tmp_path: Path) -> None:
    source = tmp_path / "x.jsonl"
    source.write_text('{"text": "Ein Hund läuft."}\n' * 30)
    task = Task("translate", str(models / "tiny"), "en", options={"steps": 2, "lengths": 1})
    rates = measure(Job(task, str(source), str(tmp_path / "out")))
    assert rates.rows > 0 and rates.tokens > rates.rows and rates.row_bytes == 17
    assert not (tmp_path / "out").exists()
