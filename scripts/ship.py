"""Put a training run's models into the package, and their validation scores into their cards.

python scripts/ship.py RUN DATA        RUN is what `anyorder train configs/de-en.toml` wrote
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from anyorder import load
from anyorder.data.test_sets import load_test_set
from anyorder.experiments.evaluate import quality
from anyorder.models.catalog import SHIPPED
from anyorder.text.plan import Plan
from anyorder.training.run import export

STAGES = {"de-en": "masked-redistilled", "de-en-ar": "ar-back"}
SETS = {"Multi30k val": "val", "Tatoeba val": "tatoeba-val"}
SENTENCES = 300  # of each set
TABLE = re.compile(r"(<!-- scores -->\n).*?(<!-- end -->)", re.DOTALL)


def scores(name: str, data: Path) -> str:
    """Validation BLEU as a Markdown table: mask-predict-like for an undirected model, greedy for a causal one."""
    translator = load(name, kind="translation")
    how, plan = "least2most, T = 10, L→1", Plan.of("least2most", count="anneal", steps=10)
    if translator.causal:
        how, plan = "greedy", Plan()
    lines = [f"| data, first {SENTENCES} | direction | decoding | BLEU | tokenised |", "|---|---|---|---:|---:|"]
    for title, corpus_name in SETS.items():
        for direction in ("de-en", "en-de"):
            corpus = load_test_set(data, corpus_name, direction).part(0, SENTENCES)
            found = translator.translate(corpus.sources, corpus.target_language, plan=plan)
            q = quality([t.text for t in found], corpus)
            tokenised = "–" if q.tokenised is None else f"{q.tokenised:.1f}"
            lines.append(f"| {title} | {direction} | {how} | {q.bleu:.1f} | {tokenised} |")
            print(name, lines[-1])
    return "\n".join(lines)


def main(run: Path, data: Path) -> None:
    for name, stage in STAGES.items():
        export(run / stage / "best", SHIPPED / name)
        card = SHIPPED / name / "README.md"
        page = card.read_text(encoding="utf-8")
        card.write_text(TABLE.sub(lambda m, name=name: f"{m[1]}{scores(name, data)}\n{m[2]}", page), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
