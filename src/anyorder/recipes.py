"""Every named decoder, one or two lines each: put one beside its paper's sentence and compare.

C is which coordinates, D the whole decoder. T is a number of steps, L a canvas's length.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from anyorder.core import (
    FEATURES,
    Accept,
    Insert,
    Order,
    PathPlanning,
    ReMDM,
    Symbols,
    TakeBack,
    Times,
    UntilEos,
    anneal,
    block,
    chance,
    confidence,
    constant,
    diffusion,
    dilated,
    entropy_bound,
    even,
    everywhere,
    factor,
    fixed,
    kl_stable,
    last_slot,
    leftmost,
    logp,
    margin,
    masked,
    negent,
    parse,
    position,
    random,
    revisit,
    rightmost,
    sampler,
    shares,
    stale,
    threshold,
    whole,
)
from anyorder.core import (
    Coordinates as C,
)
from anyorder.core import (
    Decoder as D,
)
from anyorder.errors import near

# Section 4, "Handcrafted decoding strategies": one position at a time, T = L.
uniform = D(C(random))  # τ → ∞: a position uniformly at random, without replacement
left2right = D(C(position))  # α_pos = 1
least2most = D(C(logp))  # α_logp = 1
easy_first = D(C(negent + logp))  # α_negent = α_logp = 1
hard_first = D(C(-negent + -logp))  # easy-first with its signs flipped (section 6)
right2left = D(C(rightmost))
most_confident = D(C(confidence))
largest_margin = D(C(margin))  # top-probability margin (Kim et al. 2025)


# Section 2.1, the special cases.
def autoregressive(longest: int, eos_id: int) -> D:
    """Monotonic, one symbol at a time, until <eos>: with a causal model."""
    return D(C(leftmost), length=UntilEos(longest, eos_id))


def semi_autoregressive(k: int) -> D:
    """Groups of k symbols, left to right: T = ⌈L/k⌉ (Wang et al. 2018)."""
    return D(C(leftmost, fixed(k)))


def refinement(T: int) -> D:
    """All symbols at every step, given the whole current sequence (Lee et al. 2018)."""
    return D(C(leftmost, whole, everywhere), steps=T, hide=False)


# Section 3.2, sampling.
def gibbs(T: int) -> D:
    """A coordinate uniformly at random, its symbol from p(y_i | y_≠i, X)."""
    return replace(sampler(), steps=T)


def adaptive_gibbs(
    T: int, order: Order = negent + logp + position, temperature: float = 1.0, correct: bool = True
) -> D:
    """A coordinate from the softmax of features; exact with the Metropolis correction."""
    return replace(sampler(order, temperature, correct=correct), steps=T)


# Section 4, "Decoding scenarios".
def two_pass(decoder: D) -> D:
    """T = 2L: once everything is written, go over it again in the same way."""
    return replace(decoder, coordinates=replace(decoder.coordinates, among=revisit), steps=Times(2))


def masked_conditionals(decoder: D) -> D:
    """Positions judged as the paper defines it, each with itself masked: p(y_i | y_≠i, X), a pass per position."""
    return replace(decoder, coordinates=replace(decoder.coordinates, conditionals="masked", reuse=False))


def annealed(T: int, order: Order = logp) -> D:
    """o_t from L to ⌊L/T⌋ (at least 1): predict all, then re-mask the ones ranked first and predict them again.

    Judged by the pass in which the step before read its symbols, which costs nothing; `masked_conditionals` of it is
    the paper's definition, at up to L passes more for a step.
    """
    return D(C(order, anneal(T), everywhere, reuse=bool(order.reads)), steps=T)


def constant_time(T: int, order: Order = negent + logp) -> D:
    """o_t = ⌈L/T⌉."""
    return D(C(order, constant(T)))


def mask_predict(T: int) -> D:
    """Re-mask the symbols that were least probable when written (Ghazvininejad et al. 2019)."""
    return D(C(stale, anneal(T), everywhere), steps=T)


# What came since. Diffusion LMs' own rules read the model's own probabilities, <mask> among them.
OWN = Symbols(renormalise=False)


def llada(T: int, size: int = 32) -> D:
    """The most confident of each block, its masks divided evenly over T steps per block (Nie et al. 2025)."""
    return D(C(confidence, even(T), block(size)), OWN)


def dream(T: int, algorithm: str = "entropy") -> D:
    """⌊m·(1 − s/t)⌋ of m masks a step, the best by entropy, maskgit_plus, topk_margin or origin (Ye et al. 2025).

    They are judged by what symbols are drawn from, the 50 most probable, as its code has it.
    """
    symbols = Symbols(top_k=50, drawn=True, meanwhile=True)
    if algorithm == "origin":  # every mask with the probability 1 − s/t
        return D(C(random, chance("origin", shares(T))), symbols, steps=T)
    if algorithm not in DREAM:
        raise ValueError(f"the algorithm of dream is {', '.join(DREAM)} or origin, not {algorithm!r}")
    return D(C(DREAM[algorithm], diffusion(T)), symbols, steps=T)


DREAM = {"entropy": negent, "maskgit_plus": confidence, "topk_margin": margin}


def fast_dllm(p: float = 0.9, size: int = 32) -> D:
    """Everything in the block with confidence ≥ p, at least one (Wu et al. 2025)."""
    return D(C(confidence, threshold(p), block(size)), OWN)


def fast_dllm_factor(f: float = 1.0, size: int = 32) -> D:
    """The largest n with (n + 1)(1 − c₍ₙ₎) < f in the block (Wu et al. 2025)."""
    return D(C(confidence, factor(f), block(size)), OWN)


def entropy_bounded(gamma: float = 0.1) -> D:
    """As many of the lowest entropies as keep ΣH − max H ≤ γ (EB-Sampler, Ben-Hamu et al. 2025)."""
    return D(C(negent, entropy_bound(gamma)))


def diffusion_gemma(
    T: int = 48, bound: float = 0.1, hot: float = 0.8, cold: float = 0.4, stable: int = 1, confident: float = 0.005
) -> D:
    """Accept the lowest entropies up to a bound, anew at each step; the last pass's best are the result (Google 2026).

    The temperature falls from hot to cold; a row ends once its best symbols stay the same, and are confident.
    """
    symbols = Symbols(temperature=hot, final=cold, drawn=True)
    return D(C(negent, entropy_bound(bound), everywhere), symbols, steps=T, edit=Accept(stable, confident), hide=False)


def klass(p: float = 0.9, epsilon: float = 0.01, history: int = 2) -> D:
    """Confident positions whose distribution has settled (KLASS, Kim et al. 2025)."""
    return D(C(confidence, kl_stable(p, epsilon, history)))


def dilated_groups(size: int = 16) -> D:
    """Positions far apart together, log₂(size) steps per block (DUS, Luxembourg et al. 2025)."""
    return D(C(leftmost, whole, dilated(size)))


def path_planning(T: int, eta: float = 1.0) -> D:
    """Keep the best of everything proposed so far, re-mask the rest (P2, Peng et al. 2025)."""
    return D(C(leftmost, whole, masked), steps=T, edit=PathPlanning(T, eta))


def remdm(T: int, eta: float = 0.1) -> D:
    """Masked diffusion that re-masks with probability σ ≤ η (Wang et al. 2025)."""
    edit = ReMDM(T, eta)
    return D(C(random, chance("unmask", edit.unmask_probability)), Symbols(temperature=1.0), steps=T, edit=edit)


def wino(draft: float = 0.6, keep: float = 0.9) -> D:
    """Draft all with confidence ≥ τ₁, take back where the others do not support it, p < τ₂ (Hong et al. 2025)."""
    return D(C(confidence, threshold(draft)), edit=TakeBack(keep))


# Appendix B, insertion: with a model that scores slots.
def insert_left2right(stop_id: int, longest: int) -> D:
    """Always into the last slot: L + 1 steps."""
    return D(C(rightmost, among=last_slot), edit=Insert(stop_id, longest))


def insert_uniform(stop_id: int, longest: int) -> D:
    """A slot uniformly at random (Stern et al. 2019, Gu et al. 2019)."""
    return D(C(random, among=everywhere), edit=Insert(stop_id, longest))


def insert_balanced(stop_id: int, longest: int) -> D:
    """All slots at once: a model of balanced binary trees is done in ⌈log₂(L+1)⌉ + 1 steps (Stern et al. 2019)."""
    return D(C(leftmost, whole, everywhere), edit=Insert(stop_id, longest))


STRATEGIES: dict[str, D] = {
    "uniform": uniform,
    "left2right": left2right,
    "right2left": right2left,
    "least2most": least2most,
    "easy-first": easy_first,
    "hard-first": hard_first,
    "confidence": most_confident,
    "margin": largest_margin,
}
FAMILIES: dict[str, Callable[..., D]] = {
    f.__name__.replace("_", "-"): f
    for f in (
        semi_autoregressive, refinement, gibbs, adaptive_gibbs, annealed, constant_time, mask_predict, llada, dream,
        fast_dllm, fast_dllm_factor, diffusion_gemma, entropy_bounded, klass, dilated_groups, path_planning, remdm,
        wino,
    )
}  # fmt: skip


def every(T: int, k: int) -> dict[str, D]:
    """All of them by name: families at T steps or groups of k, their other settings as they come."""
    given = {"T": T, "k": k}
    needs = {
        n: [x for x, p in inspect.signature(f).parameters.items() if p.default is p.empty] for n, f in FAMILIES.items()
    }
    return STRATEGIES | {n: f(**{x: given[x] for x in needs[n]}) for n, f in FAMILIES.items()}


def order_of(text: str, more: Mapping[str, Order] | None = None, elsewhere: Iterable[str] = ()) -> Order:
    """The order of a strategy's name, or of a sum of features in text; `more` names further orders.

    Names that are known `elsewhere` are told to who misspelt one.
    """
    named = {name: d.coordinates.order for name, d in STRATEGIES.items()} | dict(more or {})
    if text in named:
        return named[text]
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", text) and text not in FEATURES:
        names = dict.fromkeys([*named, *elsewhere])
        hint = near(text, [*names, *FEATURES])
        raise ValueError(
            f"no order {text!r}; {hint}there are {', '.join(names)}, and sums of {', '.join(FEATURES)} "
            "such as 'negent + 0.9*logp'"
        )
    return parse(text)


def describe() -> list[tuple[str, str]]:
    """(name, what it is) of every recipe that takes no model-specific ids."""
    named = [(name, str(d.coordinates.order)) for name, d in STRATEGIES.items()]
    return named + [(name, inspect.getdoc(f) or "") for name, f in FAMILIES.items()]
