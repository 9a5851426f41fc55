"""The calculator: its simulation against what can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anyorder.cluster.calculator import Rates, World, layouts, measure, recommended, simulate
from anyorder.cluster.job import Job
from anyorder.cluster.tasks import Task

RATES = Rates(load=5.0, rows=50.0, tokens=750.0, row_bytes=70.0, out_bytes=70.0)
IDEAL = World(start=0.0, driver=0.0, store=1e30, uneven=0.0, lives=1e30)


def test_without_disturbance_time_is_work_by_workers() -> None:
    rates = replace(RATES, load=0.0)
    for workers in (1, 10, 100):
        played = simulate(1e6, rates, workers, IDEAL)
        assert played.seconds == pytest.approx(1e6 / 50 / workers, rel=0.02)
        assert played.efficiency == pytest.approx(1, rel=0.02) and not played.lost


def test_what_limits() -> None:
    assert simulate(1e6, RATES, 1, World()).bottleneck == "the model"
    slow = simulate(1e8, RATES, 4096, replace(World(), driver=60.0))
    assert slow.bottleneck == "the driver" and slow.seconds >= 60 * 1e8 * 70 / (1 << 22) * 0.99
    assert simulate(1e8, RATES, 4096, replace(World(), store=1e4)).bottleneck == "the output"
    assert simulate(100, RATES, 8, World()).bottleneck == "starting"


def test_workers_that_vanish_cost_time_and_nothing_else() -> None:
    calm, rough = (simulate(1e7, RATES, 64, replace(World(), lives=lives)) for lives in (1e30, 3600.0))
    assert rough.lost > 20 and rough.busy > calm.busy and calm.seconds < rough.seconds < 2 * calm.seconds


def test_more_workers_are_recommended_for_more_rows() -> None:
    few, many = (recommended(layouts(rows, RATES)).workers for rows in (1e4, 1e9))
    assert few < 16 < many


def test_rates_are_measured_on_the_input(models: Path, tmp_path: Path) -> None:
    source = tmp_path / "x.jsonl"
    source.write_text('{"text": "Ein Hund läuft."}\n' * 30)
    task = Task("translate", str(models / "tiny"), "en", options={"steps": 2, "lengths": 1})
    rates = measure(Job(task, str(source), str(tmp_path / "out")))
    assert rates.rows > 0 and rates.tokens > rates.rows and rates.row_bytes == 17 and rates.out_bytes > 40
    assert not (tmp_path / "out").exists()


def test_a_corpus_may_be_as_large_as_one_likes() -> None:
    """Shards are played together where there are very many; the hours are those of the work."""
    for rows in (1e13, 1e300):
        played = simulate(rows, RATES, 64, replace(World(), lives=1e30, uneven=0.0))
        assert played.seconds == pytest.approx(rows / 50 / 64, rel=0.01) and played.bottleneck == "the model"
    assert simulate(1e13, RATES, 4096, replace(World(), driver=600.0)).bottleneck == "the driver"
