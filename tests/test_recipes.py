"""Every recipe: through one protocol, at its cost, and the named special cases against ten lines each."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from support import Hashed, each_alone, masks, sentences

from anyorder.core import Cost, Decoder, NoContext, block, decode, unroll
from anyorder.models.table import Table
from anyorder.recipes import (
    STRATEGIES,
    annealed,
    autoregressive,
    constant_time,
    dream,
    every,
    fast_dllm,
    klass,
    llada,
    mask_predict,
    refinement,
    semi_autoregressive,
    two_pass,
)

T, K, L = 4, 3, 8
RECIPES = every(T, K) | {f"two passes of {name}": two_pass(d) for name, d in STRATEGIES.items()}


@pytest.mark.parametrize("name", RECIPES)
def test_protocol(name: str) -> None:
    """Nothing masked is left, the same run is the same, rows do not mix, and the steps add up to the result."""
    model, decoder = Hashed(), RECIPES[name]
    context, state = sentences(model, [5, 8, 1, 3])
    result = decode(model, context, state, decoder)
    assert not (result.tokens == model.mask_id).any()
    assert torch.equal(result.tokens == model.pad_id, state.tokens == model.pad_id)
    again = decode(model, context, state, decoder)
    assert torch.equal(result.tokens, again.tokens) and torch.equal(result.score, again.score)
    for r, (own, one) in enumerate(each_alone(context, state)):
        alone = decode(model, own, one, decoder)
        assert torch.equal(alone.tokens[0], result.tokens[r, : alone.tokens.shape[1]])
        assert torch.equal(alone.score[0], result.score[r]) and alone.steps[0] == result.steps[r]
    total, score = torch.zeros(4, dtype=torch.int64), state.score.clone()
    for step in unroll(model, context, state, decoder):
        assert not (step.z & ~step.before.open).any()
        changed = step.before.tokens != step.state.tokens
        taken_back = step.state.tokens == model.mask_id
        assert not (changed & ~step.z & ~taken_back).any()
        total[step.rows] += 1
        score[step.rows] += step.logz + torch.where(step.written, step.view.logp, 0.0).sum(-1)
    assert torch.equal(total, result.steps)
    torch.testing.assert_close(score, result.score)


# ---------------------------------------------------------------- what each costs

# (forward passes, canvas rows, head rows) of one canvas of L = 8 on a random joint of 8 binary symbols; T = 4, k = 3
COSTS = {
    "uniform": (8, 8, 8),
    "left2right": (8, 8, 8),
    "right2left": (8, 8, 8),
    "least2most": (8, 8, 36),
    "easy-first": (8, 8, 36),
    "hard-first": (8, 8, 36),
    "confidence": (8, 8, 36),
    "margin": (8, 8, 36),
    "semi-autoregressive": (3, 3, 8),
    "refinement": (4, 4, 32),
    "gibbs": (4, 4, 8),
    "adaptive-gibbs": (8, 8, 47),
    "annealed": (4, 4, 26),  # the last pass only where it writes
    "constant-time": (4, 4, 20),
    "mask-predict": (4, 4, 20),
    "llada": (4, 4, 20),
    "dream": (4, 4, 23),
    "diffusion-gemma": (48, 48, 384),
    "fast-dllm": (7, 7, 35),
    "fast-dllm-factor": (5, 5, 25),
    "entropy-bounded": (7, 7, 35),
    "klass": (8, 8, 36),
    "dilated-groups": (4, 4, 8),
    "path-planning": (4, 4, 32),
    "remdm": (3, 3, 8),
    "wino": (8, 28, 41),
    "two passes of uniform": (16, 16, 16),
    "two passes of left2right": (16, 16, 16),
    "two passes of right2left": (16, 16, 16),
    "two passes of least2most": (24, 24, 80),
    "two passes of easy-first": (24, 24, 80),
    "two passes of hard-first": (24, 24, 80),
    "two passes of confidence": (24, 24, 80),
    "two passes of margin": (24, 24, 80),
}


@pytest.mark.parametrize("name", RECIPES)
def test_costs(name: str) -> None:
    table = Table(L, 2)
    cost = decode(table, NoContext(), masks(table, L), RECIPES[name]).cost
    assert (cost.forwards, cost.canvases, cost.head_rows) == COSTS[name]


def test_the_meter_tells_the_truth() -> None:
    for decoder in (STRATEGIES["easy-first"], annealed(T), RECIPES["wino"], RECIPES["adaptive-gibbs"]):
        model = Hashed()
        context, state = sentences(model, [5, 8, 1])
        cost = decode(model, context, state, decoder).cost
        assert cost.canvases == model.rows
        assert cost.head_rows == model.head_rows
    model = Hashed()
    context, state = sentences(model, [5, 8, 1])
    assert decode(model, context, state, STRATEGIES["left2right"]).cost == Cost(8, 14, 14)
    assert model.calls == 8


# ---------------------------------------------------------------- the special cases, ten lines each


def greedy(model: Hashed, y: list[int], at: list[int]) -> list[int]:
    return [int(model.log_p(y, i).argmax()) if i in at else v for i, v in enumerate(y)]


def confidences(model: Hashed, y: list[int]) -> dict[int, float]:
    """Of the best symbol that can be written, by the model's own distribution, <mask> in it."""
    return {i: float(model.log_p(y, i, own=True)[:-1].max()) for i, v in enumerate(y) if v == model.mask_id}


def run(model: Hashed, length: int, decoder: Decoder) -> list[int]:
    tokens = decode(model, NoContext(), masks(model, length, dtype=torch.float64), decoder).tokens[0]
    return tokens.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_autoregressive(seed: int) -> None:
    model, eos, longest = Hashed(5, causal=True, seed=seed), 0, 12
    y: list[int] = []
    while len(y) < longest and eos not in y:
        y.append(int(model.log_p([*y, model.mask_id], len(y)).argmax()))
    found = run(model, longest, autoregressive(longest, eos))
    assert found == y + [model.pad_id] * (longest - len(y))


@pytest.mark.parametrize("k", [1, 2, 3, 8])
def test_semi_autoregressive(k: int) -> None:
    model, y = Hashed(), [Hashed().mask_id] * 7
    for start in range(0, 7, k):
        y = greedy(model, y, list(range(start, min(start + k, 7))))
    assert run(model, 7, semi_autoregressive(k)) == y


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_refinement(steps: int) -> None:
    model, y = Hashed(), [Hashed().mask_id] * 6
    for _ in range(steps):
        y = greedy(model, y, list(range(6)))
    assert run(model, 6, refinement(steps)) == y


@pytest.mark.parametrize("steps", [1, 3, 4, 10])
def test_mask_predict(steps: int) -> None:
    model, length = Hashed(), 7
    y, p = [model.mask_id] * length, [0.0] * length
    for t in range(steps):
        n = max(1, length * (steps - t) // steps)
        again = sorted(range(length), key=lambda i: p[i])[:n]  # the least probable when they were written
        hidden = [model.mask_id if i in again else v for i, v in enumerate(y)]
        y = greedy(model, hidden, again)
        p = [float(model.log_p(hidden, i).max()) if i in again else p[i] for i in range(length)]
    assert run(model, length, mask_predict(steps)) == y


@pytest.mark.parametrize(("steps", "size"), [(2, 4), (3, 5), (1, 3), (4, 32)])
def test_llada(steps: int, size: int) -> None:
    model, length = Hashed(), 10
    y = [model.mask_id] * length
    for start in range(0, length, size):
        n = min(size, length - start)
        for t in range(steps):
            k = n // steps + (t < n % steps)
            c = {i: v for i, v in confidences(model, y).items() if start <= i < start + size}
            y = greedy(model, y, sorted(c, key=lambda i: -c[i])[:k])
    assert run(model, length, llada(steps, size)) == y


JUDGES = {
    "entropy": lambda p: float((p * p.log()).sum()),
    "maskgit_plus": lambda p: float(p[0]),
    "topk_margin": lambda p: float(p[0] - p[1]),
}


@pytest.mark.parametrize("algorithm", JUDGES)
def test_dream(algorithm: str) -> None:
    """Its schedule; judged by the 3 best symbols, <mask> among them: where that is the best, nothing is written."""
    model, lost = Hashed(sharpness=1.0), 0
    decoders = {(steps, length): dream(steps, algorithm) for steps, length in [(4, 11), (9, 9), (3, 8)]}
    for (steps, length), decoder in decoders.items():
        y, times = [model.mask_id] * length, torch.linspace(1, 1e-3, steps + 1)
        for s in range(steps):
            blank = [i for i, v in enumerate(y) if v == model.mask_id]
            best = {i: model.log_p(y, i, own=s < steps - 1).topk(3) for i in blank}
            judged = {i: JUDGES[algorithm](b.values.softmax(-1)) for i, b in best.items()}
            k = int(len(blank) * (1 - times[s + 1] / times[s])) if s < steps - 1 else len(blank)
            chosen = sorted(blank, key=lambda i: -judged[i])[:k]
            y = [int(best[i].indices[0]) if i in chosen else v for i, v in enumerate(y)]
            lost += sum(y[i] == model.mask_id for i in chosen)
        symbols = replace(decoder.symbols, top_k=3)
        assert run(model, length, replace(decoder, symbols=symbols)) == y and model.mask_id not in y
    assert lost


def test_dream_by_chance() -> None:
    """`origin` takes each mask with probability 1 − s/t, here 1/4 of 4,000 at first."""
    model = Hashed()
    first, *_, last = unroll(model, NoContext(), masks(model, 4000), dream(4, "origin"))
    assert abs(int(first.z.sum()) - 999) < 5 * math.sqrt(4000 * 0.25 * 0.75)
    assert not last.state.masked.any()


def test_fast_dllm() -> None:
    model, length, size, bar = Hashed(), 10, 4, 0.7
    y, passes = [model.mask_id] * length, 0
    for start in range(0, length, size):
        while c := {i: v for i, v in confidences(model, y).items() if start <= i < start + size}:
            y = greedy(model, y, [i for i in c if math.exp(c[i]) >= bar] or [max(c, key=lambda i: c[i])])
            passes += 1
    assert run(model, length, fast_dllm(bar, size)) == y
    assert passes < length


@pytest.mark.parametrize("size", [3, 4, 9])
@pytest.mark.parametrize("seed", range(4))
def test_klass(seed: int, size: int) -> None:
    """In blocks too, as its authors run it: a block's positions are first seen when their turn comes."""
    model, length, history = Hashed(3, sharpness=1.0, seed=seed), 9, 2
    y, steps = [model.mask_id] * length, 0
    for start in range(0, length, size):
        before, calm = {}, dict.fromkeys(range(length), 0)
        while p := {i: model.log_p(y, i) for i in range(start, min(start + size, length)) if y[i] == model.mask_id}:
            for i in p:
                moved = float((p[i].exp() * (p[i] - before[i])).sum()) if before else math.inf
                calm[i] = calm[i] + 1 if moved < 0.8 else 0
            ready = [i for i in p if calm[i] >= history and float(p[i].max().exp()) > 0.4]
            y, before = greedy(model, y, ready or [max(p, key=lambda i: float(p[i].max()))]), p
            steps += 1
    decoder = klass(0.4, 0.8, history)
    decoder = replace(decoder, coordinates=replace(decoder.coordinates, among=block(size)))
    result = decode(model, NoContext(), masks(model, length, dtype=torch.float64), decoder)
    assert result.tokens[0].tolist() == y and int(result.steps) == steps


def test_autoregressive_rows_end_when_they_end() -> None:
    model = Hashed(5, causal=True)
    context, state = sentences(model, [9] * 12)
    state = replace(state, seed=torch.arange(12))
    context = model.encode(torch.arange(12))
    result = decode(model, context, state, autoregressive(9, 0))
    assert len(set(result.steps.tolist())) > 3
    for r in range(12):
        row = torch.tensor([r])
        alone = decode(model, context.take(row), state.take(row), autoregressive(9, 0))
        assert torch.equal(alone.tokens[0], result.tokens[r]) and torch.equal(alone.score[0], result.score[r])


def test_easy_first_hears_entropies_beside_a_model_that_never_says_mask() -> None:
    """log p(<mask>) = −inf is the same for all, so easy-first is then the order of entropies, however close."""
    for seed in range(5):
        table = Table(6, 2, seed, sharpness=0.1)
        first = next(unroll(table, NoContext(), masks(table, 6), STRATEGIES["easy-first"]))
        assert first.judged is not None and first.judged.entropy is not None
        assert float(first.judged.entropy[first.z] - first.judged.entropy.min()) < 2e-5
        assert float(first.judged.entropy.max() - first.judged.entropy.min()) > 1e-4


def test_constant_time_easy_first() -> None:
    model, length, steps = Hashed(), 7, 3
    y = [model.mask_id] * length
    while model.mask_id in y:
        phi = {}
        for i, v in enumerate(y):
            if v == model.mask_id:
                whole = model.logits(model.hidden(NoContext(), torch.tensor([y]))[0, i : i + 1])[0].double()
                p = model.log_p(y, i)
                phi[i] = float((p.exp() * p).sum() - whole.log_softmax(-1)[model.mask_id])
        y = greedy(model, y, sorted(phi, key=lambda i: -phi[i])[: math.ceil(length / steps)])
    assert run(model, length, constant_time(steps)) == y
