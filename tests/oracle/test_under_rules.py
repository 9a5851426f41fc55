"""Generation under a rule, against the exact joint: valid always, joint draws exact, chains exact for p(Y | Y ∈ A)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from scipy import stats
from torch import Tensor

from anyorder import recipes
from anyorder.core import (
    Automaton,
    Coordinates,
    Decoder,
    Insert,
    Symbols,
    beam,
    begin,
    canvas,
    chains,
    decode,
    fixed,
    leftmost,
    negent,
    position,
    random,
    sampler,
)
from anyorder.core.decode import Running
from anyorder.models.table import Table

V = 3
RECIPES = {name: d for name, d in recipes.every(T=4, k=2).items() if "best" not in d.edit.reads}
TABLES = {length: Table(length, V, seed=length) for length in (3, 4, 5)}


def language(rng: torch.Generator, length: int) -> tuple[Automaton, Tensor]:
    """A random automaton, and which of all sequences it accepts."""
    while True:
        q = int(torch.randint(2, 7, (1,), generator=rng))
        step = torch.randint(0, q + 2, (V, q), generator=rng).clamp_max(q)
        automaton = Automaton.of_steps(step, torch.rand(q, generator=rng) < 0.4)
        valid = torch.tensor([automaton.accepts(s) for s in TABLES[length].sequences.tolist()])
        if bool(valid.any()):
            return automaton, valid


@pytest.mark.parametrize("name, decoder", RECIPES.items(), ids=lambda x: x if isinstance(x, str) else "")
def test_every_recipe_writes_only_what_the_rule_allows(name: str, decoder: Decoder) -> None:
    rng = torch.Generator().manual_seed(sum(map(ord, name)))
    for trial in range(3):
        length = 3 + trial
        model, (automaton, valid) = TABLES[length], language(rng, length)
        some = valid.nonzero()[torch.randint(0, int(valid.sum()), (3,), generator=rng), 0]
        blank = torch.rand(3, length, generator=rng) < 0.7
        blank[:, 0] = True
        tokens = torch.where(blank, V, model.sequences[some])
        symbols = replace(decoder.symbols, temperature=1.0) if trial == 1 else decoder.symbols
        writes = replace(decoder, symbols=replace(symbols, renormalise=True, meanwhile=False))
        first = begin(tokens, V, V + 1, seed=trial)
        found = decode(model, model.encode(), first.ruled([automaton, None, automaton]), writes)
        assert automaton.accepts(found.tokens[0].tolist()) and automaton.accepts(found.tokens[2].tolist())
        assert not bool(found.score.isinf().any())  # it is unknown where drawn symbols choose their positions
        free = decode(
            model, model.encode(), first.take(torch.tensor([1])), writes
        )  # a row beside others has its own text
        assert torch.equal(free.tokens[0], found.tokens[1]) and torch.equal(free.logp[0], found.logp[1])
        alone = decode(model, model.encode(), first.take(torch.tensor([2])).ruled([automaton]), writes)
        assert torch.equal(alone.tokens[0], found.tokens[2])


@pytest.mark.parametrize("seed", range(6))
def test_beams_keep_what_can_be_finished(seed: int) -> None:
    automaton, _ = language(torch.Generator().manual_seed(seed), 4)
    state = begin(canvas(torch.tensor([4]), V, V + 1), V, V + 1).ruled([automaton])
    found = beam(TABLES[4], TABLES[4].encode(), state, recipes.easy_first, K=4, K1=2)
    alive = found.score[0] > -torch.inf
    assert bool(alive.any()) and all(automaton.accepts(y) for y in found.tokens[0][alive].tolist())


def joint(model: Table, valid: Tensor, z: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """∏_{i∈z} p(y_i)·[a valid whole exists] / Z, and Z under the key ()."""
    hidden = model.hidden(None, torch.full((1, model.length), V))[0]
    out: dict[tuple[int, ...], float] = {}
    for y in model.sequences[valid].tolist():
        out[tuple(y[i] for i in z)] = float(sum(hidden[i, y[i]] for i in z).exp())
    total = sum(out.values())
    return {key: p / total for key, p in out.items()} | {(): total}


@pytest.mark.parametrize("seed", range(5))
def test_several_symbols_of_a_step_are_drawn_from_the_restricted_joint(seed: int) -> None:
    rng = torch.Generator().manual_seed(40 + seed)
    model, (automaton, valid) = TABLES[4], language(rng, 4)
    z = [(0, 1), (0, 2), (1, 3), (0, 1, 3), (0, 1, 2, 3)][seed]
    want, n = joint(model, valid, z), 3000
    total = want.pop(())
    here = torch.zeros(1, 4, dtype=torch.bool)
    here[0, list(z)] = True
    among = Coordinates(position, fixed(len(z)))
    region = replace(among.among, candidates=lambda state: here.expand_as(state.tokens) & state.masked)
    for temperature, rows in ((1.0, n), (0.0, 1)):
        decoder = Decoder(replace(among, among=region), Symbols(temperature=temperature))
        state = begin(torch.full((rows, 4), V), V, V + 1, seed=seed).ruled([automaton] * rows)
        running = Running(model, decoder)
        running.join(model.encode(), state)
        taken = running.step()
        drawn = [tuple(y[i] for i in z) for y in taken.state.tokens.tolist()]
        given = taken.state.score.exp().tolist()
        assert all(abs(p - want[y]) < 1e-4 for y, p in zip(drawn, given, strict=True))
        assert torch.allclose(taken.state.memory["weight"].exp(), torch.tensor(total).float(), atol=1e-4)
        if not temperature:
            assert want[drawn[0]] >= max(want.values()) - 1e-6
        elif len(want) > 1:
            counts = [drawn.count(y) for y in want]
            assert stats.chisquare(counts, [n * p for p in want.values()]).pvalue > 1e-4


def test_gaps_are_filled_together_each_by_the_rule() -> None:
    """Two gaps with fixed text between them, all written in one step."""
    model, rule = TABLES[5], Automaton.words([(0, 1), (1, 1), (2, 0)], V)
    tokens = torch.tensor([[V, V, 2, V, V]] * 200)
    part = torch.tensor([[0, 0, -1, 1, 1]] * 200)
    decoder = Decoder(Coordinates(position, fixed(9)), Symbols(temperature=1.0))
    state = begin(tokens, V, V + 1).ruled([rule] * 200, part)
    found = decode(model, model.encode(), state, decoder).tokens.tolist()
    assert all(rule.accepts(y[:2]) and rule.accepts(y[3:]) for y in found)
    assert len({tuple(y) for y in found}) == 9


def test_a_rule_leaves_the_shipped_way_of_finding_symbols_no_way_around_it() -> None:
    class Only(Symbols):
        def restrict(self, logits: Tensor, *given: object) -> Tensor:
            logits[:, 1:] = -1e4
            return logits

    class Quick(Table):  # knows its best symbols without logits, as the shipped models do
        def best(self, *given: object) -> None:
            raise AssertionError("asked for symbols that the rule may forbid")

        likeliest = best

    model = Quick(3, V)
    for symbols in (Only(), Symbols()):
        state = begin(torch.full((1, 3), V), V, V + 1)
        state = state if isinstance(symbols, Only) else state.ruled([Automaton.words([(0, 0, 0)], V)])
        assert decode(model, model.encode(), state, Decoder(Coordinates(leftmost), symbols)).tokens.tolist() == [
            [0] * 3
        ]


def test_rows_keep_their_own_rules_forced_and_allowed_symbols_wherever_they_join() -> None:
    model = TABLES[3]
    rules = [Automaton.words([word], V) for word in ((0, 1, 2), (2, 2), (1, 0))]
    running = Running(model, recipes.easy_first)
    ended: dict[int, list[int]] = {}
    for n, (rule, length) in enumerate(zip(rules, (3, 2, 2), strict=True)):
        state = begin(canvas(torch.tensor([length]), V, V + 1), V, V + 1).ruled([rule])
        running.join(model.encode(), state, torch.tensor([n]))
        taken = running.step()
        ended |= dict(zip(taken.rows.tolist(), taken.state.tokens.tolist(), strict=True))
        running.leave()
    while len(running.rows):
        taken = running.step()
        ended |= dict(zip(taken.rows.tolist(), taken.state.tokens.tolist(), strict=True))
        running.leave()
    assert [[t for t in ended[n] if t < V] for n in range(3)] == [[0, 1, 2], [2, 2], [1, 0]]

    forced = torch.tensor([[0, 1], [2, 2]])
    running = Running(model, Decoder(Coordinates(leftmost), Symbols(forced=forced)))
    first = begin(torch.full((1, 2), V), V, V + 1)
    running.join(model.encode(), first, torch.tensor([0]))
    with pytest.raises(ValueError, match="number the `row`"):
        running.join(model.encode(), first, torch.tensor([1]))
    running.join(model.encode(), first.but(row=torch.tensor([1])), torch.tensor([1]))
    running.step()
    assert running.step().state.tokens.tolist() == [[0, 1], [2, 2]]


def test_chains_inside_a_rule_are_exact_where_single_symbols_connect_it() -> None:
    model = TABLES[3]
    automaton = ~Automaton.containing([(0, 1), (2, 2)], V)
    valid = torch.tensor([automaton.accepts(s) for s in model.sequences.tolist()])
    p = torch.where(valid, model.p, 0.0) / model.p[valid].sum()
    for decoder in (sampler(), sampler(negent, 0.5)):
        n = 2000
        state = begin(torch.full((n, 3), V), V, V + 1, seed=1).ruled([automaton] * n)
        found = chains(model, model.encode(), state, decoder, samples=1, burn_in=12, thin=1).tokens[0]
        counts = torch.bincount(model.index(found), minlength=len(p)).double()
        assert float(counts[~valid].sum()) == 0
        assert stats.chisquare(counts[valid].numpy(), (n * p[valid]).numpy()).pvalue > 1e-4


def test_masking_is_not_conditioning_and_weights_make_up_for_it() -> None:
    """Each symbol drawn from what the rule leaves is no sample of p(Y | Y ∈ A); with the path's weight it is."""
    model, n = TABLES[3], 4000
    automaton = Automaton.words([(0, 0, 0), (0, 0, 1), (0, 2, 0), (1, 1, 1), (2, 1, 0), (2, 1, 1), (2, 2, 2)], V)
    valid = torch.tensor([automaton.accepts(s) for s in model.sequences.tolist()])
    p = torch.where(valid, model.p, 0.0) / model.p[valid].sum()
    uniform = Decoder(Coordinates(random), Symbols(temperature=1.0))
    weights, tokens = [], []

    running = Running(model, uniform)
    running.join(model.encode(), begin(torch.full((n, 3), V), V, V + 1, seed=3).ruled([automaton] * n))
    while len(running.rows):
        taken = running.step()
        running.leave()
    tokens, weights = taken.state.tokens, taken.state.memory["weight"].double().exp()
    plain = torch.bincount(model.index(tokens), minlength=len(p)).double()
    assert stats.chisquare(plain[valid].numpy(), (n * p[valid]).numpy()).pvalue < 1e-6
    weighted = torch.bincount(model.index(tokens), weights, minlength=len(p)) / weights.sum()
    assert float((weighted - p).abs().sum()) / 2 < 0.04 < float((plain / n - p).abs().sum()) / 2
    assert abs(float(weights.mean() / model.p[valid].sum()) - 1) < 0.1  # an unbiased estimate of p(A)


def test_a_rule_that_cannot_be_kept_is_refused_in_a_sentence() -> None:
    model, rule = TABLES[3], Automaton.words([(0, 1)], V)
    state = begin(torch.full((1, 3), V), V, V + 1).ruled([rule])
    with pytest.raises(ValueError, match="row 0: no text of 3 symbols keeps its rule"):
        decode(model, model.encode(), state, recipes.easy_first)
    with pytest.raises(ValueError, match="an insertion moves what is written"):
        decode(model, model.encode(), state, replace(recipes.easy_first, edit=Insert(0, 5)))
    with pytest.raises(ValueError, match="the best symbol of every position by itself"):
        decode(model, model.encode(), state, recipes.every(T=4, k=2)["diffusion-gemma"])
    with pytest.raises(ValueError, match="put it into the rule"):
        allowed = Symbols(allowed=torch.ones(3, V + 2, dtype=torch.bool))
        decode(model, model.encode(), state, replace(recipes.easy_first, symbols=allowed))
    with pytest.raises(ValueError, match="2 rules for 1 rows"):
        state.ruled([rule, rule])
