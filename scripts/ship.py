"""Put a trained model into the package, and its validation scores into its card.

python scripts/ship.py FOLDER NAME DATA        such as runs/de-en/masked/best de-en data
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from anyorder import load
from anyorder.data.test_sets import load_test_set
from anyorder.lab.metrics import quality
from anyorder.models.catalog import SHIPPED
from anyorder.text.plan import Plan
from anyorder.training.run import export

SETS = {"Multi30k val": "val", "Tatoeba val": "tatoeba-val"}
SENTENCES = 300  # of each set
TABLE = re.compile(r"(<!-- scores -->\n).*?(<!-- end -->)", re.DOTALL)


def scores(name: str, data: Path) -> str:
    """Validation BLEU as a Markdown table, decoded as the model does unless it is told otherwise."""
    translator = load(name, kind="translation")
    how = "greedy" if translator.causal else translator.generator("en").settled(Plan()).name
    lines = [f"| data, first {SENTENCES} | direction | decoding | BLEU | tokenised |", "|---|---|---|---:|---:|"]
    for title, set_name in SETS.items():
        for direction in ("de-en", "en-de"):
            corpus = load_test_set(data, set_name, direction).part(0, SENTENCES)
            found = translator.translate(corpus.sources, corpus.target_language)
            q = quality([t.text for t in found], corpus)
            tokenised = "–" if q.tokenised is None else f"{q.tokenised:.1f}"
            lines.append(f"| {title} | {direction} | {how} | {q.bleu:.1f} | {tokenised} |")
            print(name, lines[-1])
    return "\n".join(lines)


def main(folder: Path, name: str, data: Path) -> None:
    export(folder, SHIPPED / name)
    card = SHIPPED / name / "README.md"
    page = card.read_text(encoding="utf-8")
    card.write_text(TABLE.sub(lambda m: f"{m[1]}{scores(name, data)}\n{m[2]}", page), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
