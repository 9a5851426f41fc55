"""Draw the README's picture, docs/order.svg: one sentence written by several strategies, with the shipped model."""

from __future__ import annotations

import sys
from pathlib import Path

import anyorder
from anyorder.traces.picture import svg

ROOT = Path(__file__).parents[1]
SENTENCE = "Zwei Kinder spielen am Strand mit einem braunen Hund."
ORDERS = ("easy-first", "uniform", "refinement(2)")


def main() -> None:
    translator = anyorder.load(sys.argv[1] if len(sys.argv) > 1 else "de-en")
    traces = [translator.trace(SENTENCE, "en", order=order, rescore="none") for order in ORDERS]
    (ROOT / "docs/order.svg").write_text(svg(traces), encoding="utf-8")
    for trace in traces:
        print(f"{trace.recipe:12} {trace.text}")


if __name__ == "__main__":
    main()
