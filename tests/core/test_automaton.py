"""Languages as automata: brute force over all short sequences, on random automata."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from anyorder.core import Automaton, begin
from anyorder.core.automaton import check_states

V, L = 3, 4
WORDS = [s for n in range(L + 1) for s in itertools.product(range(V), repeat=n)]


def random_automaton(rng: torch.Generator) -> tuple[Automaton, Tensor, Tensor]:
    q = int(torch.randint(1, 7, (1,), generator=rng))
    step = torch.randint(0, q + 2, (V, q), generator=rng).clamp_max(q)
    accept = torch.rand(q, generator=rng) < 0.4
    return Automaton.of_steps(step, accept), step, accept


def accepts(step: Tensor, accept: Tensor, word: tuple[int, ...]) -> bool:
    state = 0
    for symbol in word:
        state = int(step[symbol, state])
        if state == len(accept):
            return False
    return bool(accept[state])


@pytest.mark.parametrize("seed", range(8))
def test_algebra_equals_sets_of_words(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    for _ in range(5):
        (a, *plain_a), (b, *plain_b) = random_automaton(rng), random_automaton(rng)
        in_a, in_b = ({w for w in WORDS if accepts(*plain, w)} for plain in (plain_a, plain_b))

        def words(x: Automaton) -> set[tuple[int, ...]]:
            return {w for w in WORDS if x.accepts(w)}

        assert words(a) == in_a
        assert words(a & b) == in_a & in_b and words(a | b) == in_a | in_b and words(~a) == set(WORDS) - in_a
        assert words(a.without([1])) == {w for w in in_a if 1 not in w}
        assert words(Automaton.words(in_a, V)) == in_a
        assert a.lengths(L).tolist() == [any(len(w) == n for w in in_a) for n in range(L + 1)]
        assert (a & ~a).empty and (~~a).states == a.states  # the smallest is one


def test_words_somewhere_and_alphabets() -> None:
    for patterns in ([(0, 1), (1, 1, 0)], [(2,)], [(0, 0, 0), (0, 1)], [()]):
        found = Automaton.containing(patterns, V)
        for w in WORDS:
            inside = any(w[k : k + len(p)] == p for p in patterns for k in range(len(w) + 1))
            assert found.accepts(w) == inside
    allowed = torch.rand(L, V, generator=torch.Generator().manual_seed(0)) < 0.6
    allowed[:, 0] = True
    each = Automaton.alphabets(allowed)
    for w in WORDS:
        assert each.accepts(w) == (len(w) == L and all(bool(allowed[i, s]) for i, s in enumerate(w)))
    assert each.shortest == each.longest == L
    assert Automaton.containing([(0, 1)], V).longest is None and Automaton.containing([], V).empty


def test_a_text_that_ends_where_it_likes() -> None:
    end = 2
    word = Automaton.words([(0, 1), (0,)], V).ending(end)
    for w in WORDS:
        text = w[: w.index(end)] if end in w else w
        assert word.accepts(w) == (text in ((0, 1), (0,)))


@pytest.mark.parametrize("seed", range(10))
def test_allowed_symbols_equal_brute_force(seed: int) -> None:
    """On 200 random automata; canvases change at some position, and only what that changes is computed anew."""
    rng = torch.Generator().manual_seed(100 + seed)
    done = 0
    while done < 20:
        automaton, step, accept = random_automaton(rng)
        if automaton.empty:
            continue
        done += 1
        valid = torch.tensor(
            [w for w in itertools.product(range(V), repeat=L) if accepts(step, accept, w)], dtype=torch.int64
        )
        tokens = torch.where(torch.rand(3, L, generator=rng) < 0.5, V, torch.randint(0, V, (3, L), generator=rng))
        state = begin(tokens, V, V + 1, open=torch.ones(3, L, dtype=torch.bool)).ruled([automaton] * 3)
        rules = state.rules
        assert rules is not None
        n, i = torch.ones(3, L).nonzero(as_tuple=True)
        for _ in range(3):
            ((found, some, ok),) = rules.allowed(tokens, n, i)
            assert some is None
            want = torch.zeros(3, L, V, dtype=torch.bool)
            for r in range(3):
                for k in range(L):
                    fits = (tokens[r] == V) | (tokens[r] == valid.reshape(-1, L))
                    fits[:, k] = True
                    want[r, k, valid.reshape(-1, L)[fits.all(-1), k]] = True
            assert torch.equal(ok[:, found.kind].view(3, L, V), want)
            tokens = tokens.clone()
            where = torch.randint(0, 3 * L, (2,), generator=rng)
            tokens.view(-1)[where] = torch.randint(0, V + 1, (2,), generator=rng)


def test_parts_are_each_in_the_language_and_the_rest_is_not_read() -> None:
    ab = Automaton.words([(0, 1), (1,)], V)
    tokens = torch.tensor([[V, V, 2, V, V, 4]])
    part = torch.tensor([[0, 0, -1, 1, -1, -1]])
    state = begin(tokens, V, V + 1, open=tokens == V).ruled([ab], part)
    assert state.rules is not None
    n, i = state.open.nonzero(as_tuple=True)
    ((found, _, ok),) = state.rules.allowed(tokens, n, i)
    symbols = ok[:, found.kind].tolist()
    assert symbols == [[True, False, False], [False, True, False], [False, True, False], [True] * 3]


def test_too_many_states_are_refused_with_the_number() -> None:
    with pytest.raises(ValueError, match="more than 2,000 states"):
        check_states(2001)
    long = [Automaton.alphabets(torch.ones(n, 2, dtype=torch.bool)) for n in (1999,)]
    assert long[0].states == 2000
