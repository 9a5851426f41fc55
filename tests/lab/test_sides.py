"""The benchmark's sides do the same work: plain loops write what the engine writes, peers are the same function."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from anyorder import recipes
from anyorder.lab import limit, plain
from anyorder.lab.sides import Side, decode_jobs, interleaved
from anyorder.models import engines
from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
from anyorder.models.cmlm import ConditionalMasked
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.translation import Source, SpecialIds

BAN, DIRECTION = (0, 1, 2, 3, 4), (0, 1)


Undirected = MaskedTranslation | ConditionalMasked


@pytest.fixture(scope="module", params=[MaskedTranslation, ConditionalMasked, "forwards"])
def model(request: pytest.FixtureRequest) -> Undirected:
    torch.manual_seed(0)
    forwards = request.param == "forwards"
    kind: type[Undirected] = ConditionalMasked if forwards else request.param
    made = kind(Architecture(500, 32, 2, 2, 64, forwards=forwards), SpecialIds(), ("de", "en"))
    return made.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def jobs() -> list[plain.Job]:
    rng = torch.Generator().manual_seed(1)
    sizes = torch.randint(3, 12, (12, 2), generator=rng).tolist()
    return [plain.Job(torch.randint(5, 500, (s,), generator=rng).tolist(), length) for s, length in sizes]


def test_plain_loops_write_what_we_write(model: Undirected, jobs: list[plain.Job]) -> None:
    ours = decode_jobs(model, jobs, DIRECTION, BAN, recipes.easy_first)
    assert plain.paper_easy_first(model, jobs, DIRECTION, BAN) == ours
    assert plain.full_logits_easy_first(model, jobs, DIRECTION, BAN) == ours
    ours = decode_jobs(model, jobs, DIRECTION, BAN, recipes.annealed(4))
    assert plain.paper_annealed(model, jobs, DIRECTION, BAN, 4) == ours
    assert plain.full_logits_annealed(model, jobs, DIRECTION, BAN, 4) == ours
    ours = decode_jobs(model, jobs, DIRECTION, BAN, recipes.easy_first, 3)
    assert plain.paper_beam(model, jobs, DIRECTION, BAN, 3) == ours


def test_the_limit_counts_the_matrix_products_of_a_linear_layer() -> None:
    layer, x = torch.nn.Linear(8, 16), torch.randn(5, 8)
    assert limit.flops(limit.products(lambda: layer(x))) == 2 * 5 * 8 * 16


def test_interleaved_scales_a_partial_side() -> None:
    calls: list[str] = []
    sides = [Side("a", lambda: calls.append("a")), Side("b", lambda: calls.append("b"), share=0.5)]
    timings = interleaved(sides, repeats=2)
    assert calls == ["a", "b"] * 3 and [t.name for t in timings] == ["a", "b"]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_hugging_face_peer_is_the_same_function(norm: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    architecture = Architecture(300, 32, 2, 2, 64, positions=48, gelu="tanh", norm=norm)
    ar = Autoregressive(architecture, SpecialIds(), ("de", "en")).eval().requires_grad_(False)
    sources = [torch.randint(5, 300, (n,)).tolist() for n in (5, 9, 7)]
    target = torch.randint(5, 300, (3, 6))
    hf = engines.to_hugging_face(ar, DIRECTION)
    rows, mask = engines.delimited_rows(sources, ar)
    context = ar.encode(Source(torch.tensor([s + [2] * (9 - len(s)) for s in sources]), *DIRECTION))
    with torch.inference_mode():
        ours = ar.logits(ar.states(context, target))
        theirs = hf(input_ids=rows, attention_mask=mask, decoder_input_ids=ar.shifted(target)).logits
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    pytest.importorskip("ctranslate2", reason="the benchmark's optional peer is not installed")
    tokens = ["<s>", "</s>", "<pad>", "<unk>", "<mask>", *(f"t{i}" for i in range(295))]
    engine = engines.to_ctranslate2(hf, tokens, tmp_path)
    assert engines.ctranslate2_run(engine, ar, tokens, sources)[0][:5] == engines.generate(hf, ar, sources)[0][:5]
