"""How much a model reads the rest of the target: log p of people's words by how much of them stands already.

    python -m benchmarks.studies.context DATA MODEL …        DATA as for `anyorder reproduce`; prints a Markdown table

Where the words beside it say little to a model, the order in which they are written cannot matter much.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from anyorder import Translator, load
from anyorder.data.test_sets import load_test_set
from anyorder.text.batching import batches, padded

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the other words of a sentence that stand already
SENTENCES = 400  # of val


@torch.inference_mode()
def mean_logp(translator: Translator, direction: str, data: Path, share: float, left: bool) -> float:
    """Mean log p of one symbol per sentence, given a `share` of the others: a random symbol, of the others random ones;
    or (`left`) the one after those, which are the first.
    """
    corpus = load_test_set(data, "val", direction).part(0, SENTENCES)
    source, target = (
        translator.tokenizer.encode(lines, language)
        for lines, language in zip((corpus.sources, corpus.references), direction.split("-"), strict=True)
    )
    generator, rng = translator.generator(direction.split("-")[1]), torch.Generator().manual_seed(0)
    total = 0.0
    for part in batches([len(s) + len(t) for s, t in zip(source, target, strict=True)]):
        context = generator.encode([source[i] for i in part])
        tokens = padded([target[i] for i in part], generator.model.pad_id)
        real = tokens != generator.model.pad_id
        others = (share * (real.sum(1, keepdim=True) - 1)).round()  # (N, 1) symbols that stand
        keys = torch.rand(tokens.shape, generator=rng).masked_fill(~real, -1.0)
        if left:  # the symbol asked for has the largest key, those after it come next, those before it last
            column = torch.arange(tokens.shape[1])
            keys = torch.where(column < others, 0.0, 1.0 - column / 1000).masked_fill(~real, -1.0)
        asked = keys.argmax(1)  # (N,) one symbol of each sentence
        rank = keys.argsort(1, descending=True).argsort(1)  # 0 is the symbol asked for
        hidden = (rank < real.sum(1, keepdim=True) - others) & real
        seen = tokens.masked_fill(hidden, generator.model.mask_id)
        states = generator.model.hidden(context, seen)[torch.arange(len(part)), asked]
        logp = generator.model.logits(states).log_softmax(-1)
        total += float(logp.gather(1, tokens.gather(1, asked[:, None])).sum())
    return total / len(source)


def main(data: Path, names: list[str]) -> None:
    """One row per model and direction."""
    print("| model | direction | which stand |", " | ".join(f"{share:.0%}" for share in SHARES), "|")
    print("|---|---|---|" + "---:|" * len(SHARES))
    for name in names:
        translator = load(name, kind="translation")
        for direction in ("de-en", "en-de"):
            for left in (False, True):
                values = [mean_logp(translator, direction, data, share, left) for share in SHARES]
                row = [translator.name, direction, "the first ones" if left else "random ones"]
                print("|", " | ".join(row + [f"{value:.2f}" for value in values]), "|", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
