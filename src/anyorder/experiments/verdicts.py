"""The paper's findings as a part of a page: which hold, and by which comparisons."""

from __future__ import annotations

from anyorder.experiments.claims import findings
from anyorder.experiments.findings import Finding
from anyorder.experiments.grid import Scope
from anyorder.experiments.report import Block, Heading, Shown
from anyorder.experiments.results import Results
from anyorder.experiments.tables import TextTable


def verdicts(results: Results, scope: Scope) -> list[Block]:
    """A row per finding, and under them the comparisons of each."""
    judged = findings(results, scope)
    rows = [[f.number, f.claim, f"**{f.verdict}**", f.evidence] for f in judged]
    table = TextTable(["", "the paper's finding", "here", "because"], rows)
    each = [Shown(_comparisons(f), f"{f.number}: {f.verdict}, {len(f.rows)} comparisons") for f in judged if f.rows]
    return [Heading("Does it hold?"), Shown(table), *each]


def _comparisons(finding: Finding) -> TextTable:
    return TextTable(["comparison", "Δ BLEU"], [list(row) for row in finding.rows])
