"""A job of shards on the command line: a bar while it runs, a line when it is done, a word on what failed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from anyorder.cli._terminal import visible

if TYPE_CHECKING:
    from anyorder.cluster.job import Job
    from anyorder.cluster.shards import Report, Shard

QUOTED = 5  # errors that are shown


def run(job: Job, workers: int | None = None, ray: str | None = None) -> bool:
    """Do a job, on local processes or on the Ray cluster of that address; whether all of it was done."""
    from anyorder.pool import connected

    begun = time.monotonic()
    done = 0

    def count(shard: Shard, report: Report | str) -> None:
        nonlocal done
        done += not isinstance(report, str)
        advance(shard, report)

    try:
        with connected(workers, ray) as pool, _bar(job) as advance:
            outcome = job.run(pool, count)
    except BaseException as problem:
        if done:
            print(
                f"anyorder: stopped with {done} of {len(job.shards)} shards done; the same command goes on from there",
                file=sys.stderr,
            )
        raise problem
    _say(job, outcome.reports, outcome.failed)
    seconds = time.monotonic() - begun
    passes, work = (sum(getattr(r, name) for r in outcome.reports.values()) for name in ("passes", "seconds"))
    kept = f", {outcome.kept} of them done before" if outcome.kept else ""
    typer.echo(
        f"{job.output}: {outcome.rows:,} rows in {len(outcome.reports)} of {len(job.shards)} shards{kept}; "
        f"{passes:,} passes, {work:,.0f} seconds of work, {seconds:,.0f} here"
    )
    return not outcome.failed and not outcome.bad_rows


def forecast(job: Job, rows: float | None = None) -> None:
    """What a job will take, from a few rows tried here: a table, and how many workers to take."""
    from anyorder.cluster.calculator import layouts, measure, recommended

    rates = measure(job)
    found = sum(shard.size for shard in job.shards) / max(rates.row_bytes, 1)
    count = found if rows is None else rows
    typer.echo(
        f"one worker here: {rates.rows:.1f} rows/s, {rates.tokens:,.0f} tokens/s, {rates.load:.1f} s to load; "
        f"{rates.row_bytes:.0f} bytes per row, so about {count:,.0f} rows"
    )
    typer.echo(f"{'workers':>8} {'hours':>10} {'machine-hours':>14} {'of ideal':>9}  limited by")
    every = layouts(count, rates)
    for p in every:
        typer.echo(
            f"{p.workers:>8} {p.seconds / 3600:>10.2f} {p.busy / 3600:>14.1f} {p.efficiency:>9.0%}  {p.bottleneck}"
        )
    best = recommended(every)
    typer.echo(f"recommended: {best.workers} workers, done in {best.seconds / 3600:.2f} hours")


def _say(job: Job, reports: dict[int, Report], failed: dict[int, str]) -> None:
    """What went wrong: rows, then shards."""
    bad = [f"{job.shards[n].name(job.kind)}, row {i + 1}: {e}" for n, r in reports.items() for i, e in r.errors.items()]
    rows = sum(report.failed for report in reports.values())
    for error in bad[:QUOTED]:
        print(f"anyorder: {visible(error)}", file=sys.stderr)
    if rows:
        some = "1 row is" if rows == 1 else f"{rows:,} rows are"
        print(f"anyorder: {some} left empty; the reasons are in the output", file=sys.stderr)
    for number, reason in sorted(failed.items())[:QUOTED]:
        print(f"anyorder: {job.shards[number]} failed: {visible(reason)}", file=sys.stderr)
    if failed:
        print(
            f"anyorder: {len(failed)} of {len(job.shards)} shards failed; the same command tries them again",
            file=sys.stderr,
        )


@contextmanager
def _bar(job: Job) -> Iterator[Callable[[Shard, Report | str], None]]:
    """Shards, sentences a second, passes so far and time left, on standard error; nothing where nobody would see it."""
    if not sys.stderr.isatty():
        yield lambda shard, report: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    said = "{task.fields[shards]} shards · {task.fields[rate]} sentences/s · {task.fields[passes]} passes ·"
    columns = (BarColumn(), TextColumn(said), TimeRemainingColumn())
    begun, rows, passes, shards, before = time.monotonic(), 0, 0, 0, 0
    with Progress(*columns, console=Console(stderr=True), speed_estimate_period=600) as bar:
        total = sum(shard.size for shard in job.shards)
        task = bar.add_task("", total=total, shards=f"0/{len(job.shards)}", rate="–", passes="0")

        def advance(shard: Shard, report: Report | str) -> None:
            nonlocal rows, passes, shards, before
            shards += 1
            seconds = time.monotonic() - begun
            if not isinstance(report, str):
                rows, passes = rows + report.rows, passes + report.passes
                if seconds < 1:  # done before: it says nothing of how fast this run is
                    before = rows
            rate = f"{(rows - before) / seconds:,.1f}" if rows > before else "–"
            bar.update(task, advance=shard.size, shards=f"{shards}/{len(job.shards)}", rate=rate, passes=f"{passes:,}")

        yield advance
