"""Designs as FASTA, as a table, and as one page: aligned under their parent, coloured by the model's confidence."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Sequence

from anyorder.data.fasta import fasta
from anyorder.text.designs import Design

COLUMNS = ("name", "sequence", "mutant", "identity", "pll", "logp", "symbol_logp")
_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { margin: 2rem; } h1 { font-size: 1.2rem; font-weight: 600; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 500; opacity: .7; } td, th { padding: .1rem .8rem .1rem 0; white-space: nowrap; }
.s { font-family: ui-monospace, monospace; letter-spacing: .08em; }
.s span { display: inline-block; min-width: 1ch; text-align: center; border-radius: 2px; }
.s .o { opacity: .35; } .s .w { background: color-mix(in srgb, #0a7d5a calc(var(--p) * 100%), #d5483a55); }
.s .c { text-decoration: underline; text-underline-offset: 3px; }
"""


def names(designs: Sequence[Design]) -> list[str]:
    """design_1, design_2 … with as many digits as are needed."""
    width = len(str(len(designs)))
    return [f"design_{k:0{width}d}" for k in range(1, len(designs) + 1)]


def as_fasta(designs: Sequence[Design]) -> str:
    """FASTA with the scores in the header."""
    return fasta(
        (f"{name} {d.mutant} identity={d.identity:.4f} logp={d.logp:.4f}" + _pll(d), d.sequence)
        for name, d in zip(names(designs), designs, strict=True)
    )


def as_table(designs: Sequence[Design], tabs: bool = False) -> str:
    """CSV, or TSV; per-symbol log p stand in one cell, - where a symbol was fixed."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t" if tabs else ",", lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, d in zip(names(designs), designs, strict=True):
        each = " ".join("-" if p is None else f"{p:.4f}" for p in d.symbol_logp)
        pll = "" if d.pll is None else f"{d.pll:.6f}"
        writer.writerow([name, d.sequence, d.mutant, f"{d.identity:.6f}", pll, f"{d.logp:.6f}", each])
    return out.getvalue()


def as_page(parent: str, designs: Sequence[Design], title: str = "Designs") -> str:
    """One HTML page that needs nothing else: green where the model was sure of a letter, red where it was not."""
    rows = [
        f"<tr><th>parent<td class=s>{''.join(f'<span class=o>{html.escape(c)}</span>' for c in parent)}<td><td><td>"
    ]
    for name, d in zip(names(designs), designs, strict=True):
        aligned = len(d.symbol_logp) == len(d.sequence)
        pieces = list(d.sequence) if aligned else [d.sequence]
        logp = d.symbol_logp if aligned else (d.logp,)
        same = len(d.sequence) == len(parent)
        letters = "".join(
            _letter(c, p, same and parent[k : k + 1] != c) for k, (c, p) in enumerate(zip(pieces, logp, strict=True))
        )
        pll = "" if d.pll is None else f"{d.pll:.2f}"
        rows.append(f"<tr><th>{name}<td class=s>{letters}<td>{d.identity:.1%}<td>{d.logp:.2f}<td>{pll}")
    head = "<tr><th><th>sequence<th>identity<th>log p<th>PLL"
    return (
        f'<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style><h1>{html.escape(title)}</h1>"
        f"<p>Letters that were written anew are coloured by their probability; changed ones are underlined."
        f"<div class=wide><table>{head}{''.join(rows)}</table></div></html>\n"
    )


def _letter(letter: str, logp: float | None, changed: bool) -> str:
    if logp is None:
        return f"<span class=o>{html.escape(letter)}</span>"
    p = math.exp(logp)
    return f'<span class="w{" c" * changed}" style="--p:{p:.3f}" title="p = {p:.3f}">{html.escape(letter)}</span>'


def _pll(d: Design) -> str:
    return "" if d.pll is None else f" pll={d.pll:.4f}"
