"""`anyorder map`: a command over a whole corpus, in shards, on this machine's cores or on a Ray cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli import _options as o
from anyorder.cli._guard import FOLDER
from anyorder.errors import UsageError

if TYPE_CHECKING:
    from anyorder.cluster.tasks import Task

_FILES, _WHO = "Files", "Who works"


class What(StrEnum):
    """What is done with each row."""

    translate = "translate"  # type: ignore[assignment]
    fill = "fill"
    infill = "infill"
    score = "score"
    generate = "generate"


class Format(StrEnum):
    """How rows are written."""

    text = "text"
    jsonl = "jsonl"
    csv = "csv"
    fasta = "fasta"
    parquet = "parquet"


FOR = {  # options that only some tasks have a use for
    "--to": ("translate", "score"), "--from": ("translate",), "--target": ("score",), "--int8": ("translate",),
    "--length": ("infill", "generate"), "--diffusion": ("fill", "infill", "generate", "score"),
    "--nbest": ("translate", "fill", "infill", "generate"),
}  # fmt: skip


def map(
    what: Annotated[What, typer.Argument(help="What to do with each row.")],
    place: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", help="A file, a folder or a glob; local, or a URL that fsspec reads. Text, JSON lines, "
            "CSV, FASTA or Parquet, by its ending; gzip by its content."),
        FOLDER,
    ],
    output: Annotated[
        str | None, typer.Argument(help="A folder for the parts and their manifest; local, or a URL."), FOLDER
    ] = None,
    to: Annotated[str | None, typer.Option("--to", "-t", help="Language to translate into.")] = None,
    source: Annotated[str | None, typer.Option("--from", help="Language of the text. [default: the other one]")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="A folder or a name. [default: de-en, where it translates]")
    ] = None,
    order: Annotated[str | None, typer.Option("--order", "-O", help=o.ORDERS_HELP, rich_help_panel=o.PLAN)] = None,
    count: o.CountOption = None,
    steps: o.Steps = None,
    among: o.Among = None,
    conditionals: Annotated[
        o.Conditional | None, typer.Option(help="How an order sees a written position.", rich_help_panel=o.PLAN)
    ] = None,
    beam: Annotated[int | None, typer.Option(help="K, hypotheses kept.", rich_help_panel=o.PLAN)] = None,
    positions: Annotated[int | None, typer.Option(help="K′, positions tried.", rich_help_panel=o.PLAN)] = None,
    lengths: Annotated[int | None, typer.Option(help="Target lengths tried.", rich_help_panel=o.PLAN)] = None,
    draft: o.Draft = False,
    rescore: Annotated[
        o.Rescore | None, typer.Option(help="What the best candidate is chosen by.", rich_help_panel=o.PLAN)
    ] = None,
    polish: Annotated[int | None, typer.Option(help="Rounds of local search.", rich_help_panel=o.PLAN)] = None,
    temperature: Annotated[float | None, typer.Option(help="Of symbols.", rich_help_panel=o.PLAN)] = None,
    top_k: o.TopK = None,
    top_p: o.TopP = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.", rich_help_panel=o.PLAN)] = None,
    length: Annotated[
        str | None, typer.Option(help="Tokens to write, or of a gap (2-6). [default: 20; 1-5]", rich_help_panel=o.PLAN)
    ] = None,
    nbest: Annotated[int | None, typer.Option("--nbest", "-n", min=1, help="Texts a row, as a list. [default: 1]",
                     rich_help_panel=o.SHOW)] = None,
    most_passes: Annotated[
        int | None, typer.Option(min=1, help="Leave a row empty that would take more passes. [default: 100000]",
                                 rich_help_panel=o.SPEED),
    ] = None,
    most_memory: Annotated[
        float | None, typer.Option(help="Leave a row empty that would take more gigabytes. [default: 2]",
                                   rich_help_panel=o.SPEED),
    ] = None,
    int8: o.Int8 = False,
    diffusion: o.Diffusion = False,
    column: Annotated[
        str | None,
        typer.Option(help="The column that is read. [default: text; sequence of FASTA]", rich_help_panel=_FILES),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="The column of translations that are scored. [default: translation]", rich_help_panel=_FILES),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option(help="The column that is written. [default: translation, filled, infilled, generated, score]",
                     rich_help_panel=_FILES),
    ] = None,
    kind: Annotated[
        Format | None, typer.Option("--format", help="Write text or jsonl, whatever the input is. [default: as the "
                                    "input]", rich_help_panel=_FILES),
    ] = None,
    shard_size: Annotated[
        int | None, typer.Option(min=1, help="Bytes of text a shard. [default: 64 KiB to 4 MiB]",
                                 rich_help_panel=_FILES),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes. [default: one a core, or a GPU]", rich_help_panel=_WHO)
    ] = None,
    ray: o.Ray = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Try a few rows, and say what all would take; nothing is written.",
                           rich_help_panel=_WHO),
    ] = False,
    rows: Annotated[
        float | None, typer.Option(min=1, max=1e15, help="With --plan: the corpus will have that many rows; "
                                   "INPUT is a sample.",
                                   rich_help_panel=_WHO),
    ] = None,
) -> None:  # fmt: skip
    """Do something with every row of a corpus: many processes, many machines, and it can be stopped at any moment.

    Rows come out in the order in which they came in, as parts with a manifest. Run the same command again after
    whatever stopped it: finished shards are not repeated. A row that can not be done is left empty, with the reason in
    the column error (of text: in the manifest), and the command leaves with 1.

    Example: anyorder map translate lines.de translated --to en --order 'mask-predict(4)'

    Example: anyorder map translate lines.de --to en --order 'mask-predict(4)' --plan --rows 1e9
    """
    given = {
        "--to": to, "--from": source, "--target": target, "--int8": int8 or None, "--length": length,
        "--diffusion": diffusion or None, "--nbest": nbest,
    }  # fmt: skip
    for flag, value in given.items():
        if value is not None and what not in FOR[flag]:
            raise UsageError(f"{flag} has no use in map {what}: it is for {', '.join(FOR[flag])}")
    if target is not None and to is None:
        raise UsageError("--target is the column of translations: say with --to which language they are in")
    options = dict(
        order=order, count=count, steps=o.steps_of(steps), among=among, beam=beam, positions=positions,
        conditionals=conditionals and conditionals.value, lengths=lengths, draft=draft or None,
        rescore=rescore and rescore.value, polish=polish, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed,
        most_passes=most_passes, most_memory=most_memory,
    )  # fmt: skip
    task = _task(
        what, place, {k: v for k, v in options.items() if v is not None}, model=model, to=to, source=source,
        column=column, target=target, into=into, n=nbest, length=length, int8=int8, diffusion=diffusion,
    )  # fmt: skip
    from anyorder.cli._shards import forecast, run
    from anyorder.cluster.job import Job

    if plan:
        forecast(Job(task, place, output or f"{place}.mapped", kind and kind.value, shard_size), rows)
        return
    if output is None or rows is not None:
        raise UsageError("--rows is for --plan" if rows is not None else "say where to write: INPUT OUTPUT")
    if not run(Job(task, place, output, kind and kind.value, shard_size), workers, ray):
        raise typer.Exit(1)


def _task(what: What, place: str, options: dict[str, Any], **given: Any) -> Task:
    """What was asked for, with the defaults of the command of that name."""
    from anyorder.cluster.formats import one_kind
    from anyorder.cluster.places import find
    from anyorder.cluster.tasks import Task
    from anyorder.models.catalog import DEFAULT

    if given["model"] is None:
        if what != "translate" and not (what == "score" and given["to"]):
            raise UsageError(f"say which language model: anyorder map {what} … --model bert-base-uncased")
        given["model"] = DEFAULT
    length = given.pop("length")
    if length is not None or what == "infill":
        given["length"] = tuple(o.lengths_of(length or "1-5"))
    if what == "generate" and len(given.get("length", (20,))) > 1:
        raise UsageError(f"--length of generate is one number, not {length}")
    if given["column"] is None and one_kind(find(place)) == "fasta":
        given["column"] = "sequence"
    return Task(what.value, options=options, **{k: v for k, v in given.items() if v is not None})
