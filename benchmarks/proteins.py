"""Effects and designs beside the usual scripts, in one run: python -m benchmarks.proteins [--model FOLDER] [--seed 0]

A scan of an antibody one position after the other with all logits; a table of 2,000 double mutants, a pass a mutated
position; 100 designs of a 12-residue loop by a plain masked Gibbs loop. Both sides give the same numbers (scan, table).
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import anyorder
from anyorder.text.designs import Chain

HEAVY = (
    "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRY"
    "ADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYCSRWGGDGFYAMDYWGQGTLVTVSS"
)
LETTERS = "ACDEFGHIKLMNPQRSTVWY"
LOOP = "98-109"


@torch.no_grad()
def plain_scan(writer: Any) -> list[float]:
    """The usual script: one canvas a position, all logits."""
    words, model = writer.tokenizer, writer.model.model
    letters = words.convert_tokens_to_ids(list(LETTERS))
    ids = torch.tensor([words(HEAVY)["input_ids"]])
    out = []
    for i in range(len(HEAVY)):
        masked = ids.clone()
        masked[0, i + 1] = words.mask_token_id
        logp = model(input_ids=masked).logits.log_softmax(-1)[0, i + 1]
        out += (logp[letters] - logp[ids[0, i + 1]]).tolist()
    return out


@torch.no_grad()
def plain_table(writer: Any, mutants: list[str]) -> list[float]:
    """The usual script on a table: masked marginals, a pass for each mutated position of each row."""
    words, model = writer.tokenizer, writer.model.model
    ids = torch.tensor([words(HEAVY)["input_ids"]])
    out = []
    for mutant in mutants:
        total = 0.0
        for part in mutant.split(":"):
            old, i, new = part[0], int(part[1:-1]), part[-1]
            masked = ids.clone()
            masked[0, i] = words.mask_token_id
            logp = model(input_ids=masked).logits.log_softmax(-1)[0, i]
            total += float(logp[words.convert_tokens_to_ids(new)] - logp[words.convert_tokens_to_ids(old)])
        out.append(total)
    return out


@torch.no_grad()
def plain_designs(writer: Any, n: int, iterations: int, k: int) -> list[str]:
    """protein_gibbs_sampler's way: k random positions of each row masked and drawn in each iteration, row by row."""
    words, model = writer.tokenizer, writer.model.model
    letters = words.convert_tokens_to_ids(list(LETTERS))
    batch = torch.tensor([words(HEAVY)["input_ids"]] * n)
    first, last = map(int, LOOP.split("-"))
    for _ in range(iterations):
        where = [random.sample(range(first, last + 1), k) for _ in range(n)]
        for row, some in enumerate(where):
            batch[row, some] = words.mask_token_id
        logits = model(input_ids=batch).logits
        for row, some in enumerate(where):
            for i in some:
                drawn = torch.distributions.Categorical(logits=logits[row, i, letters]).sample()
                batch[row, i] = letters[int(drawn)]
    return ["".join(words.convert_ids_to_tokens(row[1:-1])) for row in batch]


def timed(what: Callable[[], Any]) -> tuple[float, Any]:
    """(seconds, result)"""
    start = time.perf_counter()
    result = what()
    return time.perf_counter() - start, result


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a masked LM of antibodies, such as a converted sapiens")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--table", type=int, default=2000, help="double mutants")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    writer: Any = anyorder.load(args.model)
    pairs = [sorted(random.sample(range(len(HEAVY)), 2)) for _ in range(args.table)]
    mutants = [":".join(f"{HEAVY[i]}{i + 1}{random.choice(LETTERS)}" for i in pair) for pair in pairs]
    chain = Chain(num_iters=20, num_positions=2)
    jobs: dict[str, tuple[Callable[[], Any], Callable[[], Any], bool]] = {
        "scan of 120 positions": (lambda: plain_scan(writer), lambda: writer.scan(HEAVY), True),
        f"{args.table:,} double mutants": (
            lambda: plain_table(writer, mutants), lambda: writer.effects(HEAVY, mutants), True,
        ),
        "100 designs of a loop": (
            lambda: plain_designs(writer, 100, 20, 2),
            lambda: writer.design(HEAVY, LOOP, 100, chain=chain, pll=False, duplicates=True), False,
        ),
    }  # fmt: skip
    print("| | script, s | anyorder, s | times as fast | canvases, script | canvases, anyorder | largest difference |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, (plain, ours, equal) in jobs.items():
        rounds = 1 if "double" in name else args.rounds
        each = []
        for _ in range(rounds):
            a, theirs = timed(plain)
            before = writer.cost.canvases
            b, mine = timed(ours)
            each.append((a, b))
        apart = max(abs(x - float(y)) for x, y in zip(theirs, mine, strict=True)) if equal else float("nan")
        scripts = len(HEAVY) if "scan" in name else 2 * args.table if "double" in name else 100 * chain.num_iters
        a, b = (statistics.median(x) for x in zip(*each, strict=True))
        passes = writer.cost.canvases - before
        print(f"| {name} | {a:.2f} | {b:.2f} | {a / b:.1f} | {scripts:,} | {passes:,} | {apart:.1e} |")


if __name__ == "__main__":
    main()
