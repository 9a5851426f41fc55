"""`anyorder map`: a command over a whole corpus, in shards, on this machine's cores or on a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyorder.cli import _options as o
from anyorder.cli._guard import FOLDER
from anyorder.errors import UsageError
from anyorder.options import PLAN, Loading, known

if TYPE_CHECKING:
    from anyorder.corpus.task import Task

_FILES, _WHO = "Files", "Who works"


What = Literal["translate", "fill", "infill", "score", "generate"]
Format = Literal["text", "jsonl", "csv", "fasta", "parquet"]
FOR = {  # options that only some tasks have a use for
    "--to": ("translate", "score"), "--from": ("translate",), "--target": ("score",),
    "--length": ("infill", "generate"), "--nbest": ("translate", "fill", "infill", "generate"),
}  # fmt: skip


@o.options("translate", "fill", "infill", "generate", loads=("translation", "language"))
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
    *,
    length: Annotated[
        str | None, typer.Option(help="Tokens to write, or of a gap (2-6). [default: 20; 1-5]", rich_help_panel=PLAN)
    ] = None,
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
    try_out: Annotated[
        bool, typer.Option("--plan", help="Try a few rows, and say what all would take; nothing is written.",
                           rich_help_panel=_WHO),
    ] = False,
    rows: Annotated[
        float | None, typer.Option(min=1, max=1e15, help="With --plan: the corpus will have that many rows; "
                                   "INPUT is a sample.",
                                   rich_help_panel=_WHO),
    ] = None,
    **options: Any,
) -> None:  # fmt: skip
    """Do something with every row of a corpus: many processes, many machines, and it can be stopped at any moment.

    Rows come out in the order in which they came in, as parts with a manifest. Run the same command again after
    whatever stopped it: finished shards are not repeated. A row that can not be done is left empty, with the reason in
    the column error (of text: in the manifest), and the command leaves with 1.

    Example: anyorder map translate lines.de translated --to en --order 'mask-predict(4)'

    Example: anyorder map translate lines.de --to en --order 'mask-predict(4)' --plan --rows 1e9
    """
    plan, loading = o.parted(options)
    nbest = plan.pop("nbest", None)
    given = {
        "--to": to, "--from": source, "--target": target, "--length": length, "--nbest": nbest,
    }  # fmt: skip
    for flag, value in given.items():
        if value is not None and what not in FOR[flag]:
            raise UsageError(f"{flag} has no use in map {what}: it is for {', '.join(FOR[flag])}")
    loads = "translation" if what == "translate" or (what == "score" and to) else "language"
    for name in loading:
        if (why := known(Loading)[name].about.without.get(loads)) is not None:
            raise UsageError(f"--{name} has no use in map {what}: {why} (leave it out)")
    if target is not None and to is None:
        raise UsageError("--target is the column of translations: say with --to which language they are in")
    task = _task(
        what, place, plan, model=model, to=to, source=source, column=column, target=target, into=into, n=nbest,
        length=length, loading=loading,
    )  # fmt: skip

    from anyorder.cli._shards import forecast, run
    from anyorder.corpus.job import Job

    if try_out:
        forecast(Job(task, place, output or f"{place}.mapped", kind, shard_size), rows)
        return
    if output is None or rows is not None:
        raise UsageError("--rows is for --plan" if rows is not None else "say where to write: INPUT OUTPUT")
    if not run(Job(task, place, output, kind, shard_size), workers, ray):
        raise typer.Exit(1)


def _task(what: What, place: str, options: dict[str, Any], **given: Any) -> Task:
    """What was asked for, with the defaults of the command of that name."""
    from anyorder.corpus.formats import one_kind
    from anyorder.corpus.places import find
    from anyorder.corpus.task import Task
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
    return Task(what, options=options, **{k: v for k, v in given.items() if v is not None})
