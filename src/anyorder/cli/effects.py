"""`anyorder effects`: scores of mutations, from a table of variants or of all single substitutions."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyorder.cli import _options as o
from anyorder.cli._guard import READ, WRITTEN
from anyorder.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyorder.text.effect_tables import Mean
    from anyorder.text.effects import Variant

Convention = Literal[
    "masked-marginals", "wt-marginals", "mt-marginals", "joint-masked", "mutant-marginals", "own-context", "pll",
    "any-order", "left2right", "right2left",
]  # fmt: skip


@o.options(loads=("language",))
def effects(
    wild_type: Annotated[str, typer.Argument(metavar="WT", help="The wild type: a FASTA file, or the sequence."), READ],
    variants: Annotated[
        Path | None,
        typer.Argument(metavar="VARIANTS", help="CSV or TSV with a column mutant (A42G:K55R) or mutated_sequence."),
        READ,
    ] = None,
    model: Annotated[
        list[str], typer.Option("--model", "-m", help="A masked LM; several give the mean of their scores.")
    ] = ...,  # type: ignore[assignment]
    *,
    by: Annotated[Convention, typer.Option(help="The convention: see docs/proteins.md.")] = "masked-marginals",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the table to this file. [default: standard output]"),
        WRITTEN,
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the output file ends.")] = False,
    scan: Annotated[bool, typer.Option("--scan", help="All single substitutions, as a matrix.")] = False,
    positions: Annotated[str | None, typer.Option(help="Of a scan: only these, such as 10-25,40.")] = None,
    letters: Annotated[
        str | None, typer.Option(help="Of a scan: these letters. [default: the 20 amino acids, or 4 nucleotides]")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Of a scan: draw it to this file, .svg or .png."), WRITTEN
    ] = None,
    offset: Annotated[int, typer.Option(help="The number of the first letter.")] = 1,
    window: Annotated[
        Literal["optimal", "overlapping"],
        typer.Option(help="How a sequence is read that is longer than the model's positions."),
    ] = "optimal",
    seed: Annotated[int, typer.Option(help="Of any-order with more than four mutations.")] = 0,
    **given: Any,
) -> None:
    """Score mutations of a protein or nucleic acid: above 0 where the model prefers the variant.

    All columns stay as they are; score is added, and of several models a column each. Where there is a column
    DMS_score, Spearman's rank correlation is said and written beside the output (FILE.summary.json).

    Example: anyorder effects wt.fasta variants.csv -m ./esm -o scored.csv

    Example: anyorder effects wt.fasta --scan --positions 95-102 -m ./esm -o scan.csv --picture scan.svg
    """
    if scan == (variants is not None):
        raise UsageError("give a table of VARIANTS, or --scan")
    if not scan and (positions or letters or picture):
        raise UsageError("--positions, --letters and --picture are those of --scan")
    if resume and (output is None or scan):
        raise UsageError("--resume goes on with a table of variants in an output file: say which with --output")
    if picture is not None and picture.suffix.lower() not in (".svg", ".png"):
        raise UsageError(f"--picture {picture}: the file ends in .svg or .png")
    from anyorder.data.fasta import one_sequence
    from anyorder.text.effect_tables import Mean

    _, sequence = one_sequence(wild_type)
    loading = o.parted(given)[1]
    mean = Mean([o.open_language_model(m, dict(loading)) for m in model], sequence, by=by, window=window, seed=seed)
    for note in sorted({s.note for s in mean.scorers} - {""}):
        print(f"anyorder: {note}", file=sys.stderr)
    if scan:
        _scan(mean, sequence, positions, letters, offset, output, picture)
    else:
        assert variants is not None
        settings = {"model": model, "by": by, "window": window, "seed": seed, "offset": offset, "wild_type": sequence}
        _table(mean, sequence, variants, offset, output, resume, settings)


def _scan(
    mean: Mean, sequence: str, positions: str | None, letters: str | None, offset: int, out: Path | None,
    picture: Path | None,
) -> None:  # fmt: skip
    from anyorder.files import whole, write_whole
    from anyorder.progress import Bar
    from anyorder.text.effect_tables import heat_map, matrix
    from anyorder.text.effects import AT_ONCE, Effect, single_substitutions, stretches, usual_letters

    where = None if positions is None else stretches(positions, len(sequence), offset)
    known = usual_letters(mean.scorers[0].letters) if letters is None else letters
    all_ = list(single_substitutions(sequence, where, known, offset))
    mean.check(all_)
    parts = [all_[i : i + AT_ONCE] for i in range(0, len(all_), AT_ONCE)]
    found: list[Effect] = []
    with Bar("effects", len(all_)) as bar:
        for part in parts:
            scores = mean.score(part)
            found += [Effect(s[0], v.mutant, v.sequence, mean.by) for v, s in zip(part, scores, strict=True)]
            bar.advance(len(part))
    text = matrix(sequence, found, known, offset)
    if out is None:
        sys.stdout.write(text)
    else:
        write_whole(out, text)
    if picture is not None:
        with whole(picture) as file:
            heat_map(sequence, found, known, file, picture.suffix[1:].lower(), offset)


def _table(
    mean: Mean, sequence: str, path: Path, offset: int, out: Path | None, resume: bool, settings: dict[str, Any]
) -> None:
    from anyorder.cli._outputs import Outputs
    from anyorder.files import ctrl_c_waits, write_whole
    from anyorder.progress import Bar
    from anyorder.text.effect_tables import MEASURED, Variants, agreement, cells, line
    from anyorder.text.effects import AT_ONCE, CONVENTIONS

    tabs = path.suffix.lower() in (".tsv", ".tab")

    def opened() -> Variants:
        return Variants(path.open(encoding="utf-8-sig", newline=""), str(path), sequence, offset, tabs)

    rows = opened()
    if taken := [name for name in mean.columns if name in rows.columns]:
        raise DataError(f"{path} has a column {taken[0]} already: rename it, it would be written over")
    measured, scores = list[float](), list[float]()
    at = rows.columns.index(MEASURED) if MEASURED in rows.columns else None

    def checked() -> Iterator[Variant]:
        for row, v in rows:
            if at is not None and row[at].strip():
                _number(row[at], path)
            yield v

    total = mean.check(checked())  # everything is read once before anything is written
    outputs = Outputs([out], settings)
    with outputs, Bar("variants", total) as bar:
        if resume:
            outputs.resume()
        rest, before = iter(opened()), len(outputs.blocks)
        for n in itertools.count():
            done = n < before
            if not (part := list(itertools.islice(rest, outputs.blocks[n].lines if done else AT_ONCE))):
                break
            texts = [line(row, tabs).rstrip("\n") for row, _ in part]
            found = [] if done and at is None else mean.score([v for _, v in part])
            if done:
                outputs.check(n, n, texts)
            else:
                if n == 0:
                    outputs.sinks[0].write(line([*rows.columns, *mean.columns], tabs))
                for (row, _), score in zip(part, found, strict=True):
                    outputs.sinks[0].write(cells(row, score, tabs))
                with ctrl_c_waits():
                    outputs.commit(texts)
            if at is not None:
                for (row, _), score in zip(part, found, strict=True):
                    if row[at].strip():
                        measured.append(_number(row[at], path))
                        scores.append(score[0])
            bar.advance(len(part))
        if total == 0:
            outputs.sinks[0].write(line([*rows.columns, *mean.columns], tabs))
            outputs.commit([])
    if measured:
        summary = agreement(measured, scores)
        said = "Spearman {spearman:.4f} [{low:.4f}, {high:.4f}] over {variants:,} variants"
        print(said.format(**summary), file=sys.stderr)
        if out is not None:
            write_whole(
                out.with_name(out.name + ".summary.json"),
                json.dumps({**summary, **settings, "formula": CONVENTIONS[mean.by].formula}, indent=1) + "\n",
            )


def _number(text: str, path: Path) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{path}: DMS_score {text!r} is no number") from None
