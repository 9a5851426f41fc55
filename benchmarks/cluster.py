"""Corpora on local processes and on Ray: scaling, overhead, time to the first part, memory, faults; a page of the docs.

    python -m benchmarks.cluster train.de.gz --sentences 20000 -o docs/results/cluster.md

Each run is a process of its own; Ray's nodes have one CPU each, on loopback. Runs are kept in --runs, and a second
start does only those that are missing. Of a busy machine only ratios mean something.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks._publish import publish
from benchmarks.cluster_faults import FAULTS, disturbed
from benchmarks.cluster_runs import TENTHS, job_of, measured

RUNS = [("processes", 1), ("ray", 1), ("ray", 2), ("processes", 2)]
PAGE = """# Corpora on many workers, measured

Written by `python -m benchmarks.cluster TEXT --sentences {sentences} --order '{order}'`: German to English with
`{model}`, {sentences:,} sentences of Multi30k, {how}, one thread per worker, shards of
{shard_size:,} bytes, on a machine of {cores} cores (the column load: how many processes wanted them when a run
ended; where these are many more than the workers, the times say little).
Ray's nodes are real ones, of one CPU each, on loopback addresses of this machine; its workers run at the priority of
everything else (`RAY_worker_niceness=0`: by default they yield to whatever else wants a core).

## Scaling

{table}

- *sentences/s* is counted from the first finished shard to the last, so it leaves starting out; *ideal* is the rate of
  one local process, times the workers.
- *first part after* is from the start of the job (with Ray, when the cluster is up, which took {cluster:.1f} s) to the
  first part on disk: mostly the import of torch in the worker, loading the model, and one shard.
- *sending* is the time between handing a shard to a worker and hearing that it is done, less the time that the worker
  spent on it: what Ray, or a pipe, adds.
- *driver* and *worker* are the most memory that either had. {memory}

The most that a single worker had, tenth by tenth of its sentences: what is freed goes back to the system every ten
seconds of work, and few operations that oneDNN prepares for batches of one size are kept (`anyorder.machine`).

{tenths}

{same}

## Faults

On a cluster of two nodes, {few:,} sentences, {fault_shards} shards:

{faults}

*Identical* compares all parts and the manifest, byte for byte, with those of one local process.
"""


def corpus(source: Path, sentences: int, path: Path) -> Path:
    """That many lines: those of the source, over and over."""
    data = source.read_bytes()
    lines = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8").splitlines()
    path.write_text("".join(lines[i % len(lines)] + "\n" for i in range(sentences)), encoding="utf-8")
    return path


def scaling(runs: list[dict[str, Any]]) -> str:
    """The measured runs, as a table."""
    lines = [
        "| | workers | sentences | sentences/s | ideal | of ideal | first part after | sending, per sentence | "
        "driver | worker | load |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    base = {r["rows"]: r["rate"] for r in runs if r["how"] == "processes" and r["workers"] == 1}
    for r in runs:
        ideal = r["workers"] * base[r["rows"]]
        lines.append(
            f"| {r['how'].capitalize()} | {r['workers']} | {r['rows']:,} | {r['rate']:.1f} | {ideal:.1f} | "
            f"{r['rate'] / ideal:.0%} | {r['first']:.1f} s | {1e6 * r['lost'] / r['rows']:.0f} µs | "
            f"{r['driver']:.0f} MiB | {r['worker']:.0f} MiB | {r['load']:.1f} |"
        )
    return "\n".join(lines)


def grown(runs: list[dict[str, Any]], few: int, many: int) -> str:
    """How the memory of one worker and its driver grew from few rows to many."""
    said = []
    for how in ("processes", "ray"):
        least, most = (next(r for r in runs if (r["how"], r["workers"], r["rows"]) == (how, 1, n)) for n in (few, many))
        for who in ("driver", "worker"):
            said.append(f"{most[who] / least[who] - 1:+.0%} ({how}, {who})")
    return f"From {few:,} to {many:,} sentences, with one worker: {', '.join(said)}."


def tenths(runs: list[dict[str, Any]], many: int) -> str:
    """The most memory that the one worker of a run had in each tenth of it, as a table."""
    alone = [r for r in runs if r["workers"] == 1 and r["rows"] == many]
    upto = [f"{many * k // TENTHS:,}" for k in range(1, TENTHS + 1)]
    lines = ["| MiB, up to sentence | " + " | ".join(upto) + " |", "|---|" + "--:|" * TENTHS]
    for r in alone:
        lines.append(f"| {r['how'].capitalize()} | " + " | ".join(f"{most:.0f}" for most in r["tenths"]) + " |")
    return "\n".join(lines)


def page(runs: list[dict[str, Any]], faults: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """All that was measured, as Markdown."""
    few, many = options.sentences // 10, options.sentences
    parts: dict[int, set[str]] = {}
    for r in runs:
        parts.setdefault(r["rows"], set()).add(r["parts"])
    identical = "The output of all these runs over the same sentences is identical, byte for byte."
    same = identical if all(len(found) == 1 for found in parts.values()) else "NOT all runs wrote the same."
    how = f"`{options.order}`" + (", its default order" if options.order == "forwards" else " at one length a sentence")
    rows = [f"| {f['said']} | {'yes' if {f['parts']} == parts[f['rows']] else 'NO'} |" for f in faults]
    return PAGE.format(
        **vars(options), how=how, cores=os.cpu_count(), table=scaling(runs), same=same, few=few,
        cluster=max(r["cluster"] for r in runs), memory=grown(runs, few, many),
        tenths=tenths(runs, many), fault_shards=faults[0]["shards"],
        faults="\n".join(["| what happens | identical |", "|---|---|", *rows]),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="German sentences, a line each")
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--model", default="de-en")
    parser.add_argument("--order", default="forwards", help="of another one length per sentence is tried")
    parser.add_argument("--shard-size", type=int, default=1 << 14, help="bytes: small, so that its overhead is seen")
    parser.add_argument("--runs", type=Path, default=Path("cluster-runs.jsonl"), help="where runs are kept")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    few, many = options.sentences // 10, options.sentences
    names = [f"{how}:{workers}:{rows}" for rows in (few, many) for how, workers in RUNS if rows == many or workers == 1]
    names += [f"{fault}:2:{few}" for fault in FAULTS]
    if options.one:
        print(json.dumps({"name": options.one, **_one(options)}))
        return
    kept = [json.loads(line) for line in options.runs.read_text().splitlines()] if options.runs.exists() else []
    found = {r["name"]: r for r in kept}
    for name in names:
        if name in found:
            continue
        print(name, file=sys.stderr)
        found[name] = _apart(name, options)
        with options.runs.open("a") as file:
            file.write(json.dumps(found[name]) + "\n")
    results = [found[name] for name in names]
    text = page([r for r in results if "how" in r], [r for r in results if "fault" in r], options)
    publish([text], options.output)


def _one(options: argparse.Namespace) -> dict[str, Any]:
    """The run that --one names, in this process."""
    how, workers, rows = options.one.split(":")
    with tempfile.TemporaryDirectory() as folder:
        text = corpus(options.source, int(rows), Path(folder, "corpus.de"))
        job = job_of(text, Path(folder, "out"), options.model, options.order, options.shard_size)
        return disturbed(how, job) if how in FAULTS else measured(how, int(workers), job)


def _apart(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """A run in a process of its own, which keeps Ray on loopback."""
    command = [
        sys.executable, "-m", "benchmarks.cluster", str(options.source), "--model", options.model,
        "--order", options.order, "--shard-size", str(options.shard_size), "--one", name,
    ]  # fmt: skip
    environment = {**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    said = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(json.loads(said.splitlines()[-1]))


if __name__ == "__main__":
    main()
