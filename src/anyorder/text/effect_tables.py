"""Tables of variants: rows of CSV in, the same rows with scores out; a scan as a matrix and as a heat map."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from anyorder.errors import DataError, TextError, extra
from anyorder.text.effects import Effect, Scorer, Variant, from_sequence, spearman, variant

if TYPE_CHECKING:
    from anyorder.text.language_model import LanguageModel

MUTANT, SEQUENCE, MEASURED = "mutant", "mutated_sequence", "DMS_score"  # columns as ProteinGym has them
Row = dict[str, str]


class Variants:
    """The rows of a table of variants, and the variant of each."""

    def __init__(self, file: TextIO, name: str, wild_type: str, offset: int = 1, tabs: bool = False) -> None:
        self.name, self.wild_type, self.offset = name, wild_type, offset
        self.reader = csv.reader(file, delimiter="\t" if tabs else ",", strict=True)
        self.columns = self._next() or []
        if not self.columns:
            raise DataError(f"{name} is empty: a table of variants has a column {MUTANT}")
        if len(set(self.columns)) < len(self.columns):
            raise DataError(f"{name}: two columns have the same name")
        if MUTANT not in self.columns and SEQUENCE not in self.columns:
            raise DataError(
                f"{name} has no column {MUTANT} (such as A42G:K55R) and no column {SEQUENCE}; it has "
                f"{', '.join(self.columns)}"
            )

    def __iter__(self) -> Iterator[tuple[list[str], Variant]]:
        while (cells := self._next()) is not None:
            if not cells:
                continue
            where = f"{self.name}, row {self.reader.line_num}"
            if len(cells) != len(self.columns):
                raise DataError(f"{where}: {len(cells)} cells, but the table has {len(self.columns)} columns")
            try:
                yield cells, self._variant(dict(zip(self.columns, cells, strict=True)))
            except TextError as error:
                raise DataError(f"{where}: {error}") from None

    def _variant(self, row: Row) -> Variant:
        if mutant := row.get(MUTANT, "").strip():
            found = variant(self.wild_type, mutant, self.offset)
            said = row.get(SEQUENCE, "").strip()
            if said and said != found.sequence:
                raise TextError(f"{mutant} of the wild type is not the {SEQUENCE} beside it")
            return found
        if sequence := row.get(SEQUENCE, "").strip():
            return from_sequence(self.wild_type, sequence, self.offset)
        raise TextError(f"there is neither a {MUTANT} nor a {SEQUENCE}")

    def _next(self) -> list[str] | None:
        try:
            return next(self.reader, None)
        except UnicodeDecodeError:
            raise DataError(
                f"{self.name} is not UTF-8: convert it, for instance with iconv -f latin1 -t utf8"
            ) from None
        except csv.Error as error:
            raise DataError(f"{self.name}, row {self.reader.line_num + 1}: {error}") from None


class Mean:
    """Scores by one model, or by the mean of several."""

    def __init__(self, writers: Sequence[LanguageModel], wild_type: str, **how: Any) -> None:
        self.by = str(how.get("by", "masked-marginals"))
        self.scorers = [Scorer(writer, wild_type, **how) for writer in writers]
        names = [Path(writer.name).name or writer.name for writer in writers]
        self.columns = ["score", *(f"score_{n}" for n in names)] if len(writers) > 1 else ["score"]
        if len(set(self.columns)) < len(self.columns):
            self.columns = ["score", *(f"score_{k}" for k in range(1, len(writers) + 1))]

    def check(self, variants: Iterable[Variant]) -> int:
        """Refuse letters that a model lacks, before anything is scored; how many variants there are."""
        count = 0
        for v in variants:
            count += 1
            for scorer in self.scorers:
                scorer.check_variant(v)
        return count

    def score(self, variants: Sequence[Variant]) -> list[tuple[float, ...]]:
        """(score,) of each variant; of several models their mean, then each."""
        each = [scorer.score(variants) for scorer in self.scorers]
        if len(each) == 1:
            return [(float(effect),) for effect in each[0]]
        return [(sum(some) / len(some), *map(float, some)) for some in zip(*each, strict=True)]


def cells(row: Sequence[str], scores: Sequence[float], tabs: bool = False) -> str:
    """A row of the output: the cells as they were read, then the scores."""
    return line([*row, *(f"{x:.6f}" for x in scores)], tabs)


def line(some: Sequence[str], tabs: bool = False) -> str:
    """Cells as a line of CSV."""
    out = io.StringIO()
    csv.writer(out, delimiter="\t" if tabs else ",", lineterminator="\n").writerow(some)
    return out.getvalue()


def agreement(measured: Sequence[float], scores: Sequence[float]) -> dict[str, float | int]:
    """Spearman's rank correlation of measured values and scores, with its 95 % interval."""
    rho, low, high = spearman(measured, scores)
    return {"spearman": rho, "low": low, "high": high, "variants": len(scores)}


def matrix(wild_type: str, effects: Sequence[Effect], letters: str, offset: int = 1) -> str:
    """A scan as CSV: a row a position, a column a letter."""
    out = line(["position", "wild_type", *letters])
    for k in range(0, len(effects), len(letters)):
        row = effects[k : k + len(letters)]
        number = row[0].mutant[1:-1]
        out += line([number, wild_type[int(number) - offset], *(f"{float(e):.6f}" for e in row)])
    return out


def heat_map(
    wild_type: str, effects: Sequence[Effect], letters: str, file: IO[bytes], form: str = "svg", offset: int = 1
) -> None:
    """A scan as a picture, svg or png: positions across, letters down; dots are the wild type."""
    with extra("report"):
        import matplotlib as mpl
        from matplotlib.figure import Figure
    rows = [[float(e) for e in effects[k :: len(letters)]] for k in range(len(letters))]
    numbers = [e.mutant[1:-1] for e in effects[:: len(letters)]]
    most = max((abs(x) for row in rows for x in row), default=1.0) or 1.0
    figure = Figure(figsize=(max(4.0, 0.13 * len(numbers) + 1.8), 0.17 * len(letters) + 1.2), layout="constrained")
    axes = figure.add_subplot()
    picture = axes.imshow(rows, cmap="RdBu", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
    own = [letters.find(wild_type[int(n) - offset]) for n in numbers]
    axes.plot([x for x, y in enumerate(own) if y >= 0], [y for y in own if y >= 0], ".", color="black", markersize=2)
    axes.set_yticks(range(len(letters)), list(letters), fontsize=7)
    every = max(1, len(numbers) // 20)
    some = range(0, len(numbers), every)
    axes.set_xticks(some, [f"{wild_type[int(numbers[j]) - offset]}{numbers[j]}" for j in some], fontsize=7, rotation=90)
    figure.colorbar(picture, ax=axes, label="effect", shrink=0.8)
    with mpl.rc_context({"svg.hashsalt": "anyorder"}):
        figure.savefig(file, format=form, dpi=160, metadata={"Date": None} if form == "svg" else None)
