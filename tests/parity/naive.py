"""The other systems' procedures once more, straight from their descriptions: one sentence, Python loops, no engine.

They check the replay at settings that no recording has: more passes, other beams, weights, blocks and prompts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.translation import Source

LogP = Callable[[list[int]], Tensor]  # canvas of L ids → log p (L, V)
Weights = tuple[float, float, float]


def log_probabilities(model: MaskedTranslation, source: list[int], direction: tuple[int, int], close: bool) -> LogP:
    context = model.encode(Source(torch.tensor([source]), *direction, close=close))

    def logp(tokens: list[int]) -> Tensor:
        return model.logits(model.hidden(context, torch.tensor([tokens]))[0]).log_softmax(-1)

    return logp


def _entropy(p: Tensor) -> Tensor:
    return -(p.exp() * p).sum(-1)


def greedy(logp: LogP, mask: int, L: int, weights: Weights, passes: int) -> tuple[list[int], list[int], float]:
    alpha, beta, gamma = weights
    y, chosen, total = [mask] * L, [], 0.0
    before = None
    for t in range(passes * L):
        now = logp(y)
        phi = torch.zeros(L)
        for i in range(L):
            away = abs(t % L - i)
            phi[i] = -alpha * math.log(float(_entropy(now[i])) / math.log(now.shape[-1]))
            phi[i] -= beta * float(before[i, y[i]]) if before is not None else 0.0
            phi[i] += gamma * math.log(away / L) if away else 0.0
        i = int(phi.argmax()) if t < L else chosen[t % L]
        if t < L:
            chosen.append(i)
        y[i] = mask
        value, token = logp(y)[i].max(-1)
        y[i], total, before = int(token), total + float(value), now
    return y, chosen, total / (passes * L)


def beam(logp: LogP, mask: int, L: int, positions: list[int], K: int, passes: int) -> list[tuple[float, list[int]]]:
    """(score, tokens) of the K hypotheses, best first."""
    hypotheses = [(0.0, [mask] * L)]
    for t in range(passes * L):
        i = positions[t % L]
        grown = []
        for score, y in hypotheses:
            values, tokens = logp(y)[i].topk(K)
            for value, token in zip(values.tolist(), tokens.tolist(), strict=True):
                grown.append((score + value, [*y[:i], token, *y[i + 1 :]]))
        hypotheses = sorted(grown, key=lambda pair: -pair[0])[:K]
    return [(score / L**0.6, y) for score, y in hypotheses]


def constant_time(
    logp: LogP, mask: int, L: int, weights: Weights, steps: int, schedule: str
) -> tuple[list[int], float]:
    alpha, beta, gamma = weights
    passes = min(steps, L) + (schedule == "constant")
    y, total, phi = [mask] * L, 0.0, torch.zeros(L)
    for t in range(passes):
        if schedule == "constant":
            k = math.ceil(L / passes) if t else 0
            in_a_row = list(range(L))[max(t - 1, 0) * k : t * k]
        else:
            k = max(int(L * ((passes - t) / passes)), 1)
            in_a_row = list(range(k))
        best = sorted(range(L), key=lambda i: -float(phi[i]))[:k]
        z = in_a_row if t == 0 or (alpha, beta, gamma) == (0, 0, 1) else best
        if schedule == "all":
            z = list(range(L))
        else:
            y = [mask if i in z else token for i, token in enumerate(y)]
        now = logp(y)
        for i in z:
            value, token = now[i].max(-1)
            y[i], total = int(token), total + float(value)
        phi = -alpha * _entropy(now).log() - beta * now[torch.arange(L), torch.tensor(y)]
    return y, total / (passes * L)


def mask_predict(logp: LogP, mask: int, L: int, steps: int) -> tuple[list[int], float]:
    p, y = logp([mask] * L).max(-1)
    y = y.tolist()
    for t in range(1, steps):
        k = max(1, int((torch.tensor(float(L)) * (1 - t / steps)).item()))
        worst = p.topk(k, largest=False).indices.tolist()
        y = [mask if i in worst else token for i, token in enumerate(y)]
        new, tokens = logp(y).max(-1)
        for i in worst:
            y[i], p[i] = int(tokens[i]), new[i]
    return y, float(p.sum())


def easy_first_beam(logp: LogP, mask: int, L: int, K: int) -> tuple[list[int], float]:
    hypotheses = [(0.0, [mask] * L)]
    for _ in range(L):
        grown: dict[tuple[int, ...], float] = {}
        for score, y in hypotheses:
            now = logp(y)
            for i in (i for i in range(L) if y[i] == mask):
                for token in now[i].topk(K * K + 1).indices.tolist():
                    if token != mask:
                        key = (*y[:i], token, *y[i + 1 :])
                        grown[key] = max(grown.get(key, -math.inf), score + float(now[i, token]))
        best = sorted(grown.items(), key=lambda pair: -pair[1])[:K]
        hypotheses = [(score, list(y)) for y, score in best]
    return hypotheses[0][1], hypotheses[0][0]


def low_confidence(logp: LogP, mask: int, prompt: list[int], length: int, steps: int, block: int) -> list[int]:
    y, n = [*prompt, *[mask] * length], len(prompt)
    each = steps // (length // block)
    for b in range(length // block):
        end = n + (b + 1) * block
        shares = [block // each + (s < block % each) for s in range(each)]
        for share in shares:
            value, token = logp(y).max(-1)
            free = sorted((i for i in range(end) if i >= n and y[i] == mask), key=lambda i: -float(value[i]))
            for i in free[:share]:
                y[i] = int(token[i])
    return y[n:]


def threshold(logp: LogP, mask: int, prompt: list[int], length: int, p: float, block: int) -> tuple[list[int], int]:
    y, n, forwards = [*prompt, *[mask] * length], len(prompt), 0
    for end in range(n + block, n + length + 1, block):
        while mask in y[n:end]:
            value, token = logp(y).max(-1)
            forwards += 1
            free = sorted((i for i in range(n, end) if y[i] == mask), key=lambda i: -float(value[i]))
            for rank, i in enumerate(free):
                if rank == 0 or math.exp(float(value[i])) >= p:
                    y[i] = int(token[i])
    return y[n:], forwards
