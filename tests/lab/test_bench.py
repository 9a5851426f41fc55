"""What the benchmark reports adds up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from anyorder.lab.sides import one_by_one
from anyorder.models import engines
from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.translation import SpecialIds
from benchmarks import costs
from benchmarks._profile import profile


def tiny(kind: type, vocabulary: int = 300, layers: int = 2) -> object:
    torch.manual_seed(0)
    architecture = Architecture(vocabulary, 32, layers, 2, 64, positions=48)
    return kind(architecture, SpecialIds(), ("de", "en")).eval().requires_grad_(False)


def test_longer_targets_cost_more() -> None:
    found = {g.variable: g for g in costs.growth(tiny(MaskedTranslation), 1, lambda text: None)}
    assert list(found) == ["target length", "sentences at once", "vocabulary", "length candidates", "beam"]
    lengths = found["target length"]
    assert lengths.values == (7, 14, 28)  # no longer than the model's positions
    assert lengths.milliseconds[-1] > lengths.milliseconds[0] > 0
    assert costs.markdown(list(found.values())).count("\n| ") == 5


def test_the_shares_of_a_profile_are_all_of_the_time() -> None:
    a = torch.randn(400, 400)
    table = profile(lambda: [(a @ a).exp() for _ in range(20)])
    shares = {name: int(share) for name, share in re.findall(r"^\| (.*) \| (\d+)% \|$", table, re.MULTILINE)}
    assert 90 <= sum(shares.values()) <= 105
    assert shares["matrix products"] > 20


def test_one_by_one_warms_up_and_takes_turns() -> None:
    calls: list[tuple[str, int]] = []
    sides = {"a": lambda i: calls.append(("a", i)), "b": lambda i: calls.append(("b", i))}
    found = one_by_one(sides, 3, block=2, rest=0)
    first = [(side, i) for side in "ab" for i in (0, 0, 1)]  # an untimed call before each block
    assert calls == [*first, *((side, i) for side in "ab" for i in (2, 2))]
    assert all(0 <= p50 <= p95 for p50, p95 in found.values())


def test_converting_a_peer_leaves_the_other_as_it_is(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the benchmark's optional peer is not installed")
    hf = engines.to_hugging_face(tiny(Autoregressive), (0, 1))
    before = {name: weight.clone() for name, weight in hf.state_dict().items()}
    tokens = ["<s>", "</s>", "<pad>", "<unk>", "<mask>", *(f"t{i}" for i in range(295))]
    engines.to_ctranslate2(hf, tokens, tmp_path, "int8")
    assert all(torch.equal(before[name], weight) for name, weight in hf.state_dict().items())
