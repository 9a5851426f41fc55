"""`anyorder design`: stretches of a sequence written anew."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli import _options as o
from anyorder.cli._guard import READ, WRITTEN
from anyorder.errors import UsageError

if TYPE_CHECKING:
    from anyorder.text.designs import Design

_RULES, _CHAIN = "What is allowed", "A Gibbs chain instead of an order"


@o.options("design", loads=("language",))
def design(
    parent: Annotated[
        str, typer.Argument(metavar="PARENT", help="A FASTA file with one sequence, or the sequence."), READ
    ],
    model: o.LanguageModelName = ...,  # type: ignore[assignment]
    *,
    redesign: Annotated[
        str, typer.Option(help="What is written anew: 95-102,30, or with new lengths 95-102:6-10.")
    ] = ...,  # type: ignore[assignment]
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A .fasta, .csv, .tsv or .html file. [default: FASTA to standard output]"),
        WRITTEN,
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Also a page with the designs under their parent."), WRITTEN] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="Only these letters: DE, or 95-102:DE.", rich_help_panel=_RULES)
    ] = None,
    ban: Annotated[
        list[str] | None, typer.Option(help="Never these letters: C, or 95-102:C.", rich_help_panel=_RULES)
    ] = None,
    near: Annotated[int | None, typer.Option(help="At most that many substitutions.", rich_help_panel=_RULES)] = None,
    most_run: Annotated[
        int | None, typer.Option(help="No longer run of one letter, unless the parent has one.", rich_help_panel=_RULES)
    ] = None,
    duplicates: Annotated[bool, typer.Option("--duplicates", help="Allow them.", rich_help_panel=_RULES)] = False,
    pll: Annotated[bool, typer.Option("--pll/--no-pll", help="Pseudo log-likelihoods, a pass a position.")] = True,
    offset: Annotated[int, typer.Option(help="The number of the first letter.")] = 1,
    num_iters: Annotated[int | None, typer.Option(help="Iterations of the chain.", rich_help_panel=_CHAIN)] = None,
    num_positions: Annotated[int, typer.Option(help="Positions an iteration; 0: all.", rich_help_panel=_CHAIN)] = 0,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Positions in turn, not at random.", rich_help_panel=_CHAIN)
    ] = False,
    leader_length: Annotated[int, typer.Option(help="Letters at the start that stay.", rich_help_panel=_CHAIN)] = 0,
    rollover_from_start: Annotated[
        bool, typer.Option("--rollover-from-start", help="In turn over the leader too.", rich_help_panel=_CHAIN)
    ] = False,
    burnin: Annotated[
        int, typer.Option(help="Iterations that draw among all letters before --top-k begins.", rich_help_panel=_CHAIN)
    ] = 0,
    mask: Annotated[
        bool, typer.Option("--mask/--no-mask", help="Hide the positions that are drawn.", rich_help_panel=_CHAIN)
    ] = True,
    **given: Any,
) -> None:
    """Write stretches of a protein, a nucleic acid or a molecule anew; everything else stays.

    The same seed gives the same designs. --num-iters makes it a Gibbs chain, by protein_gibbs_sampler's names.

    Example: anyorder design antibody.fasta -m ./esm --redesign 95-102 -n 100 --ban C -o designs.csv --page designs.html

    Example: anyorder design antibody.fasta -m ./esm --redesign 95-102 --num-iters 20 --num-positions 2 --top-k 3
    """
    from anyorder.data.fasta import one_sequence
    from anyorder.files import write_whole
    from anyorder.text.design_page import as_fasta, as_page, as_table
    from anyorder.text.designs import Chain

    def as_tabs(designs: Sequence[Design]) -> str:
        return as_table(designs, tabs=True)

    forms: dict[str, Callable[[Sequence[Design]], str]] = {
        ".fasta": as_fasta, ".fa": as_fasta, ".csv": as_table, ".tsv": as_tabs,
    }  # fmt: skip
    suffix = ".fasta" if output is None else output.suffix.lower()
    if suffix not in (*forms, ".html"):
        raise UsageError(f"--output {output}: the file ends in .fasta, .csv, .tsv or .html")
    plan, loading = o.parted(given)
    n, chain = plan.pop("nbest"), None
    if num_iters is not None:
        chain = Chain(
            num_iters, num_positions, in_order, leader_length, rollover_from_start, plan.pop("top_k", 0), burnin, mask
        )
        plan.pop("order", None)
    elif num_positions or in_order or leader_length or rollover_from_start or burnin or not mask:
        raise UsageError("--num-positions, --in-order, --leader-length, --burnin … are a chain's: add --num-iters")
    name, sequence = one_sequence(parent)
    writer = o.open_language_model(model, loading)
    found = writer.design(
        sequence, redesign, n, allow=allow, ban=ban, near=near, most_run=most_run, duplicates=duplicates, pll=pll,
        offset=offset, chain=chain, **plan,
    )  # fmt: skip
    title = f"Designs of {name or 'the sequence'}"
    text = as_page(sequence, found, title) if suffix == ".html" else forms[suffix](found)
    if output is None:
        sys.stdout.write(text)
    else:
        write_whole(output, text)
    if page is not None:
        write_whole(page, as_page(sequence, found, title))
