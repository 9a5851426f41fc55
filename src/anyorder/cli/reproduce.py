"""`anyorder reproduce`: the paper's tables and figures for a model, and which of its findings hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anyorder.cli import _options as o
from anyorder.cli._guard import FOLDER, READ

OTHERS = "test_2017_flickr,tatoeba-test"


def reproduce(
    data: Annotated[Path, typer.Option(help="Folder with multi30k/, tatoeba/ or wmt14/."), FOLDER],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the report."), FOLDER] = Path("results"),
    model: Annotated[str, typer.Option("--model", "-m", help="A shipped model, or a folder; FOLDER-ar is its "
                     "autoregressive baseline, FOLDER/policy-*.safetensors its learned orders.")] = "de-en",
    limit: Annotated[int | None, typer.Option(help="Sentences in the paper's tables (hundreds). [default: 100]",
                     min=100)] = None,
    headline: Annotated[int | None, typer.Option(help="Sentences in the first table, and where a finding is decided "
                        "(hundreds). [default: 1000]", min=100)] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop decoding after this long, the most important first. "
                       "The same command goes on where it stopped.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes, one thread each. [default: as many as "
                    "cores]")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder of decoded cells. [default: OUTPUT/cells]"), FOLDER] = None,
    tuned: Annotated[Path | None, typer.Option(help="What `anyorder tune` wrote. [default: OUTPUT/tuned.json]"),
                     READ] = None,
    test_set: Annotated[str, typer.Option("--set", help="The test set of the paper's tables.")] = "test_2016_flickr",
    val: Annotated[str, typer.Option(help="The set of Table 2, energies and samples.")] = "val",
    others: Annotated[str | None, typer.Option(help="Further test sets of the first table, by commas. "
                      f"[default: {OTHERS}]")] = None,
    order: Annotated[list[str] | None, typer.Option("--order", "-O", help="An order of your own beside the paper's, in "
                     "Tables 1 and 3: FILE.py:NAME, or of an installed package. May be given again.")] = None,
    choose: Annotated[str, typer.Option(help="How a length candidate is chosen: written or pll.")] = "written",
    findings: Annotated[bool, typer.Option("--findings", help="Only which of the paper's findings hold, and "
                        "its tables 1 and 3, in OUTPUT/findings.md: nothing else is decoded.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A hundred sentences and few rows.")] = False,
    ray: o.Ray = None,
) -> None:  # fmt: skip
    """Table 1, 2 and 3, the comparison table, orders, energy, samples, costs, significance and findings.

    Example: anyorder reproduce --data DATA --output docs/results --minutes 60

    Example: anyorder reproduce --data DATA --model de-en-joint --findings
    """
    from anyorder.errors import UsageError
    from anyorder.lab.report import reproduce as run
    from anyorder.lab.rows import Scope
    from anyorder.lab.tune import read_tuned
    from anyorder.options import known
    from anyorder.pool import connected
    from anyorder.text.plan import Plan

    if choose not in ("written", "pll"):
        raise UsageError(f"--choose is written or pll, not {choose!r}")
    for name, value in (("--limit", limit), ("--others", others), ("--tuned", tuned)):
        if findings and value is not None:
            raise UsageError(f"{name} is of the tables, which --findings leaves out: leave one of the two out")
    if quick and (limit, headline) != (None, None):
        raise UsageError("--quick is a hundred sentences everywhere: leave it out, or --limit and --headline")
    own = tuple(str(known()["order"].value(one)) for one in order or ())
    for one in own:
        Plan.of(one).check()
    scope = Scope(
        own=own,
        main=test_set, val=val,
        others=tuple(name for name in (OTHERS if others is None else others).split(",") if name),
        tuned={} if findings else read_tuned(tuned or output / "tuned.json"),
        criterion="pll" if choose == "pll" else "written",
        limit=limit or 100, headline=headline or (100 if quick else 1000), seeds=2 if quick else 3, quick=quick,
    )  # fmt: skip
    if ray is not None and jobs is not None:
        raise UsageError("--jobs are processes of this machine: on a Ray cluster there are as many as it has CPUs")
    with connected(jobs, ray) as pool:
        done = run(model, data, output, scope, only_findings=findings, cache=cache, pool=pool, minutes=minutes)
    typer.echo(f"The report is {' and '.join(map(str, done.files))}")
    if done.left:
        typer.echo(f"{done.left} tasks are left: run the same command again to go on.")
