"""A job of shards on the command line: a bar while it runs, a line when it is done, a word on what failed."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import typer

from anyorder.cli._terminal import visible
from anyorder.progress import Bar

if TYPE_CHECKING:
    from anyorder.corpus.job import Job
    from anyorder.corpus.work import Report, Shard

QUOTED = 5  # errors that are shown


def run(job: Job, workers: int | None = None, ray: str | None = None) -> bool:
    """Do a job, on local processes or on the Ray cluster of that address; whether all of it was done."""
    from anyorder.pool import connected

    begun = time.monotonic()
    done = 0

    def count(shard: Shard, report: Report | str) -> None:
        nonlocal done
        done += not isinstance(report, str)
        bar.heard(shard, report)

    try:
        with connected(workers, ray) as pool, _Shards(job) as bar:
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
    from anyorder.corpus.forecast import layouts, measure, recommended

    rates = measure(job)
    found = sum(shard.size for shard in job.shards) / max(rates.row_bytes, 1)
    count = found if rows is None else rows
    typer.echo(
        f"one worker here: {rates.rows:.1f} rows/s, {rates.tokens:,.0f} tokens/s, {rates.load:.1f} s to load; "
        f"{rates.row_bytes:.0f} bytes per row, so about {count:,.0f} rows"
    )
    typer.echo(f"{'workers':>8} {'hours':>10} {'machine-hours':>14} {'of ideal':>9}")
    every = layouts(count, rates)
    for p in every:
        typer.echo(f"{p.workers:>8} {p.seconds / 3600:>10.2f} {p.busy / 3600:>14.1f} {p.efficiency:>9.0%}")
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


class _Shards(Bar):
    """Shards, with sentences a second and passes so far."""

    def __init__(self, job: Job) -> None:
        super().__init__("shards", len(job.shards))
        self.begun = time.monotonic()
        self.rows = self.passes = self.before = 0

    def heard(self, shard: Shard, report: Report | str) -> None:
        """A shard is done, or failed."""
        seconds = time.monotonic() - self.begun
        if not isinstance(report, str):
            self.rows, self.passes = self.rows + report.rows, self.passes + report.passes
            if seconds < 1:  # done before: it says nothing of how fast this run is
                self.before = self.rows
        rate = f"{(self.rows - self.before) / seconds:,.1f}" if self.rows > self.before else "–"
        self.advance(1, f"{rate} sentences/s · {self.passes:,} passes")
