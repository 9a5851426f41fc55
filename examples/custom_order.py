"""A policy of one's own: an order with a memory, used by every decoder, and compared with others on one sentence.

    python examples/custom_order.py

It writes near what it wrote last (a pen that does not like to jump), but goes where the model is certain.
"""

from itertools import pairwise

import torch
from torch import Tensor

import anyorder
from anyorder.core import Coordinates, Decoder, Order, State, View, constant


class Pen(Order):
    """φ_i = −H_i − jump · |i − where the pen is| / L."""

    reads = frozenset({"entropy"})

    def __init__(self, jump: float) -> None:
        self.jump = jump

    def __call__(self, state: State, view: View) -> Tensor:
        pen = state.recall("pen", torch.zeros_like(state.score))  # (N,)
        distance = (state.place - pen[:, None]).abs() / state.length[:, None]
        assert view.entropy is not None
        return -view.entropy - self.jump * distance

    def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        """The pen is now at the mean of what was written."""
        return {"pen": (state.place * z).sum(-1) / z.sum(-1).clamp_min(1)}


translator = anyorder.load("de-en")
sentence = "Zwei Kinder spielen im Garten mit einem kleinen Hund."
decoders = {
    "no pen": Decoder(Coordinates(Pen(jump=0.0))),
    "a pen": Decoder(Coordinates(Pen(jump=2.0))),
    "a heavy pen": Decoder(Coordinates(Pen(jump=100.0))),
    "a pen, 4 steps": Decoder(Coordinates(Pen(jump=2.0), constant(4))),
}
for name, decoder in decoders.items():
    trace = translator.trace(sentence, to="en", order=decoder)
    path = [position for step in trace.steps for position in step.positions]
    jumps = sum(abs(a - b) for a, b in pairwise(path)) / max(1, len(path) - 1)
    print(f"{name:15} {trace.text}\n{'':15} order {path}, {jumps:.1f} positions a move, {trace.forwards} passes")
