"""What a learned order does: `python -m benchmarks.studies.order_choices DATA --policy NAME FOLDER`.

- How often it writes the leftmost mask, over the steps with a choice: in each quarter of the text, and by what else.
- Where its translation is not left2right's (it can differ only where the order does): the BLEU of both on those.
- Whether it could be left2right: a probe, linear or with one layer of 64 units, that reads the hidden state at a mask
  and says whether any mask stands on its left. Trained on every other step of a batch, judged on the steps between
  (of the same sentences, so that it does no worse than on new ones).
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from anyorder.core.order import Order
from anyorder.core.state import State, View
from anyorder.lab.metrics import bleu_of, paired
from anyorder.models.policy import Policy
from anyorder.text.plan import Plan
from benchmarks.studies._order_cells import DIRECTIONS, Cells, Way
from benchmarks.studies.learned_order import arguments, said

QUARTERS = 4


class Watched(Order):
    """An order that notes of each step whether it writes the leftmost mask."""

    def __init__(self, inner: Policy) -> None:
        self.inner, self.reads = inner, inner.reads
        self.steps = torch.zeros(QUARTERS)
        self.leftmost = torch.zeros(QUARTERS)
        self.next = self.last = 0  # other choices: right of a written symbol, the rightmost mask

    def __call__(self, state: State, view: View) -> Tensor:
        scores = self.inner(state, view)
        masked = state.masked
        choice = masked.sum(-1) > 1
        chosen = scores.masked_fill(~masked, -torch.inf).argmax(-1)
        first, last = masked.int().argmax(-1), masked.shape[1] - 1 - masked.int().flip(-1).argmax(-1)
        quarter = (QUARTERS * (state.length - masked.sum(-1)) // state.length)[choice]
        self.steps += quarter.bincount(minlength=QUARTERS)
        self.leftmost += quarter[(chosen == first)[choice]].bincount(minlength=QUARTERS)
        before = (state.open & ~masked).gather(1, (chosen - 1).clamp_min(0)[:, None])[:, 0]
        other = choice & (chosen != first)
        self.next += int((other & before & (chosen != last)).sum())
        self.last += int((other & (chosen == last)).sum())
        return scores

    def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        return self.inner.remember(state, view, z)


class Noted(Order):
    """Any order, with what a probe would read: the hidden state of each mask, and whether it is the leftmost one."""

    def __init__(self, scores: Order) -> None:
        self.inner, self.reads = scores, frozenset({"hidden"}) | scores.reads
        self.states: list[tuple[Tensor, Tensor]] = []

    def __call__(self, state: State, view: View) -> Tensor:
        assert view.hidden is not None
        masked = state.masked
        first = masked & (masked.cumsum(-1) == 1)
        self.states.append((view.hidden[masked].clone(), first[masked]))
        return self.inner(state, view)


def probe(parts: list[tuple[Tensor, Tensor]], units: int) -> tuple[float, float]:
    """Recall and precision of "the leftmost mask" on the steps that were not trained on."""
    torch.manual_seed(0)
    half = len(parts) // 2
    (x, y), (u, v) = ((torch.cat(f) for f in zip(*some, strict=True)) for some in (parts[::2][:half], parts[1::2]))
    width = x.shape[1]
    net = nn.Linear(width, 1) if not units else nn.Sequential(nn.Linear(width, units), nn.ReLU(), nn.Linear(units, 1))
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(1000):
        rows = torch.randint(len(x), (2048,))
        loss = nn.functional.binary_cross_entropy_with_logits(net(x[rows])[:, 0], y[rows].float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        yes = net(u)[:, 0] > 0
    return float((yes & v).sum() / v.sum()), float((yes & v).sum() / yes.sum().clamp_min(1))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--policy", nargs=2, action="append", default=[], metavar=("NAME", "FOLDER"))
    parser.add_argument("--probe", nargs="*", default=[], help="orders whose states are probed, such as uniform")
    options = parser.parse_args()
    for direction in options.direction:
        cells = Cells(options.model, options.data, direction, options.sets, options.cache, options.limit)
        source, target = direction.split("-")
        print(f"\n{DIRECTIONS[direction]}, {' and '.join(options.sets)}, {len(cells.sources)} sentences\n")
        print("| policy | leftmost | by quarters | others: behind a symbol | the last | other text | BLEU there |")
        print("|---|---:|---:|---:|---:|---:|---:|")
        handcrafted = cells(Way("left2right"))
        own = cells.files.get(f"policy-{direction}")
        files = {"learned": own} if own is not None and not options.policy else {}
        files |= {name: Path(folder) / f"policy-{direction}.safetensors" for name, folder in options.policy}
        for name, file in files.items():
            if not file.exists():
                continue
            watched = Watched(Policy.load(file))
            found = cells.translator.translate(cells.sources, target, source=source, order=watched, lengths=1)
            steps = int(watched.steps.sum())
            differs = [i for i, t in enumerate(found) if t.text != handcrafted.texts[i]]
            mine = cells(Way(str(file) if name != "learned" else "learned"))
            a, b = mine.statistics[differs], handcrafted.statistics[differs]
            both = f"{bleu_of(a.sum(0)):.2f}, {bleu_of(b.sum(0)):.2f} ({said(paired([(a, b)]))})" if differs else ""
            quarters = " ".join(f"{float(x):.0%}" for x in watched.leftmost / watched.steps.clamp_min(1))
            share = float(watched.leftmost.sum()) / steps
            print(f"| {name} | {share:.1%} | {quarters} | {watched.next / steps:.1%} | {watched.last / steps:.1%} "
                  f"| {len(differs) / len(found):.1%} | {both} |", flush=True)  # fmt: skip
        for name in options.probe:
            noted = Noted(Plan.of(name).decoder().coordinates.order)
            cells.translator.translate(cells.sources, target, source=source, order=noted, lengths=1)
            for units in (0, 64):
                recall, precision = probe(noted.states, units)
                kind = f"{units} units" if units else "linear"
                print(f"\nprobe, {kind}, states of {name}: recall {recall:.1%}, precision {precision:.1%}")


if __name__ == "__main__":
    main()
