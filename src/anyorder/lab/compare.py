"""Systems beside each other on one test set: scores, paired bootstrap against the first of them, costs, a picture."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.data.read import read_aligned
from anyorder.errors import DataError, PlanError, UsageError
from anyorder.lab import figures
from anyorder.lab.metrics import holm, paired, quality, statistics, ter
from anyorder.lab.tables import table
from anyorder.models import catalog
from anyorder.options import Loading, Option, known, misspelt
from anyorder.text.plan import Plan

if TYPE_CHECKING:
    from anyorder.core import Cost
    from anyorder.data.test_sets import EvalSet

OPTION = re.compile(r"\s*(?:^|(?<=\s))([a-z][a-z0-9_-]*)=(\S+)\s*$")  # the last of "NAME option=value option=value"
COLUMNS = ("system", "BLEU", "chrF", "TER", "Δ BLEU", "p", "p (Holm)", "passes", "head rows", "seconds")


@dataclass(frozen=True)
class System:
    """One contender, as it was named: a file of texts, or a model with a plan."""

    name: str
    file: Path | None = None
    model: str = ""
    options: Mapping[str, Any] | None = None  # of the plan
    loading: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Written:
    """What a system wrote, a line for each source, and what that cost; a file cost nothing that is known."""

    name: str
    texts: list[str]
    errors: dict[int, str]
    cost: Cost | None = None
    seconds: float | None = None


def system(said: str, first: System) -> System:
    """What `said` names: a file, a model, or an order (of the first system's model, and with its other options).

    Options such as `beam=5` may follow; options alone change the first system in these.
    """
    rest, given = said, dict[str, Any]()
    while (found := OPTION.search(rest)) is not None:
        given = {found[1].replace("-", "_"): found[2]} | given
        rest = rest[: found.start()]
    rest = rest.strip()
    options = {name: _value(known()[name], name, text) for name, text in given.items() if name in known()}
    more = known(Loading)
    loading = {name: _value(more[name], name, text) for name, text in given.items() if name in more}
    for name in given:
        if name not in {**known(), **known(Loading)}:
            raise misspelt(name)
    if Path(rest).is_file() and not given:
        return System(said, file=Path(rest))
    if rest and (rest in catalog.shipped() or Path(rest).is_dir()):
        return System(said, model=rest, options=options, loading=loading)
    if rest:
        options = {"order": known()["order"].value(rest), **options}
    try:
        whole = {**(first.options or {}), **options}
        Plan.of(**whole).check()
    except PlanError as error:
        hint = "" if given else "; it is no file and no model either"
        raise UsageError(f"--against {said!r}: {error}{hint}") from None
    return System(said, model=first.model, options=whole, loading={**(first.loading or {}), **loading})


def _value(one: Option, name: str, text: str) -> Any:
    """An option's value from text, by its declared type."""
    if bool in one.kinds:
        if text not in ("true", "false"):
            raise UsageError(f"{name} is true or false, not {text!r}")
        return text == "true"
    if {int, float} & set(one.kinds) and not one.about.words and re.fullmatch(r"-?\d{1,19}(\.\d+)?", text):
        return float(text) if float in one.kinds or "." in text else int(text)
    return one.value(text)


def of_file(which: System, corpus: EvalSet, whole: int) -> Written:
    """The texts of a file: one for each source, or for each of the `whole` set that these are the first of."""
    assert which.file is not None
    lines = read_aligned(which.file, which.file).first
    if len(lines) not in (len(corpus), whole):
        raise DataError(f"{which.file} has {len(lines)} lines, but there are {len(corpus)} sources")
    return Written(which.name, lines[: len(corpus)], {})


def compared(written: Sequence[Written], corpus: EvalSet) -> list[dict[str, Any]]:
    """A row for each system over the lines that all of them have: the first is what the others are compared with."""
    failed = {n for one in written for n in one.errors}
    scored = [
        n for n in range(len(corpus))
        if n not in failed and corpus.sources[n].strip() and corpus.references[n].strip()
    ]  # fmt: skip
    if not scored:
        raise DataError(f"not one of the {len(corpus)} lines of {corpus.name} can be scored: all are blank or failed")
    some = corpus.some(scored)
    texts = [[one.texts[n] for n in scored] for one in written]
    counted = [statistics(own, some.references) for own in texts]
    differences = [paired([(own, counted[0])]) for own in counted[1:]]
    corrected = holm([d.p for d in differences])
    rows = []
    for k, one in enumerate(written):
        found, n = quality(texts[k], some), len(scored)
        row: dict[str, Any] = {"system": one.name, "sentences": n, "bleu": found.bleu, "chrf": found.chrf}
        row |= {"tokenised": found.tokenised, "ter": ter(texts[k], some.references)}
        if k:
            d = differences[k - 1]
            row |= {"delta": d.delta, "low": d.low, "high": d.high, "p": d.p, "p_holm": corrected[k - 1]}
        if one.cost is not None:
            row |= {"passes": one.cost.canvases / n, "head_rows": one.cost.head_rows / n}
        rows.append(row | ({} if one.seconds is None else {"seconds": one.seconds / n}))
    return rows


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a table."""

    def line(row: Mapping[str, Any]) -> list[str]:
        own = [row["system"], *(f"{row[name]:.2f}" for name in ("bleu", "chrf", "ter"))]
        own += [f"{row['delta']:+.2f}", f"{row['p']:.3f}", f"{row['p_holm']:.3f}"] if "delta" in row else ["", "", ""]
        costs = (("passes", ".1f"), ("head_rows", ".0f"), ("seconds", ".3f"))
        return own + [format(row[name], how) if name in row else "–" for name, how in costs]

    first, n = rows[0]["system"], rows[0]["sentences"]
    caption = (
        f"{n} sentences; Δ and p against {first}: paired bootstrap, p also corrected for {len(rows) - 1} comparisons. "
        "Passes, head rows and seconds are of a sentence."
    )
    return table(COLUMNS, [line(row) for row in rows], caption)


def picture(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """BLEU against passes as SVG: what nothing cheaper equals is joined. Texts from files have no passes."""
    points = {row["system"]: (row["passes"], row["bleu"]) for row in rows if "passes" in row}
    return figures.frontier({title: points}, "passes through the model, a sentence (log)")
