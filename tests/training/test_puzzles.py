"""The puzzles of the examples: their rules, their models, and the form whose right order is known."""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "puzzles"))
from colouring import Family, GraphModel, colourings
from forms import BLANK, ZERO, Layout, forms
from grids import Shape, filled, puzzles, scrambled, solutions
from learning import HANDCRAFTED, Puzzle, PuzzleTask, run
from masked import Puzzles, fit
from sudoku import GridModel, UnitModel
from table import TITLES, Results, columns, markdown

from anyorder.core import Coordinates, Count, Decoder, Model, NoContext, Order, decode
from anyorder.core.count import ONE
from anyorder.training.checkpoint import TrainingError
from anyorder.training.ppo import PolicyTrainer


@pytest.mark.parametrize("shape", [Shape(2, 2), Shape(2, 3), Shape(3, 3)])
def test_every_row_column_and_box_holds_every_symbol(shape: Shape) -> None:
    grids = scrambled(shape, filled(shape, 3, random.Random(0)).repeat(7, 1), torch.Generator().manual_seed(0))
    for kind in range(3):
        index = torch.tensor([unit[kind] for unit in shape.units])
        for unit in range(shape.side):
            symbols = grids[:, index == unit].sort(-1).values
            assert torch.equal(symbols, torch.arange(1, shape.side + 1).expand_as(symbols))
    assert len(grids.unique(dim=0)) > 10


def test_puzzles_have_exactly_the_solution_they_came_from() -> None:
    shape, rng = Shape(2, 2), random.Random(1)
    grids = filled(shape, 10, rng)
    made = puzzles(shape, grids, rng, clues=4)
    for puzzle, grid in zip(made.tolist(), grids.tolist(), strict=True):
        assert solutions(shape, puzzle, limit=5) == [grid]
        assert 4 <= sum(v > 0 for v in puzzle) < 9
    assert len(solutions(shape, [0] * 16, limit=1000)) == 288  # all 4×4 grids
    assert solutions(shape, [1, 1] + [0] * 14) == []


@pytest.mark.parametrize("kind", [GridModel, UnitModel])
def test_the_model_learns_and_every_order_fills_the_grid(kind: type[GridModel] | type[UnitModel]) -> None:
    shape, rng = Shape(2, 2), random.Random(2)
    grids = filled(shape, 200, rng)
    torch.manual_seed(0)
    model = kind(shape, width=16, layers=1)
    assert isinstance(model, Model)

    def draw(g: torch.Generator) -> tuple[NoContext, torch.Tensor]:
        return NoContext(), grids[torch.randint(len(grids), (64,), generator=g)]

    first = fit(model, draw, 1, 3e-3)
    assert fit(model, draw, 250, 1e-2) < 0.9 * first
    some = Puzzles(NoContext(), puzzles(shape, grids[:8], rng, clues=6), grids[:8])
    task = PuzzleTask(model, some, some)
    for order in HANDCRAFTED.values():
        assert 0 <= task.validate(order) <= 100
    episodes = task.draw(4, torch.Generator().manual_seed(0))
    clues = ~episodes.state.open
    assert torch.equal(episodes.state.tokens[clues], episodes.references[clues])


def test_graphs_have_one_colouring_each_and_their_model_knows_nodes_by_their_neighbours() -> None:
    family = Family(nodes=9, density=0.7)
    graphs, canvas, colour = family.puzzles(12, seed=1)
    assert ((canvas == 0).sum(-1) >= 5).all() and (canvas == colour)[canvas > 0].all()
    same = colour[:, :, None] == colour[:, None, :]
    assert not (graphs.edges & same).any() and torch.equal(graphs.edges, graphs.edges.mT)
    for edges, row in zip(graphs.edges, canvas.tolist(), strict=True):
        near = [node.nonzero()[:, 0].tolist() for node in edges]
        assert colourings(near, row, 3) == 1
        assert colourings(near, [0] * 9, 3, limit=7) >= 6  # colours can be renamed
    torch.manual_seed(0)
    model, shuffle = GraphModel(3, width=16, layers=1).eval(), torch.randperm(9)
    assert isinstance(model, Model)
    moved = type(graphs)(graphs.edges[:, shuffle][:, :, shuffle])
    with torch.no_grad():
        states, again = model.hidden(graphs, canvas), model.hidden(moved, canvas[:, shuffle])
    torch.testing.assert_close(states[:, shuffle], again)


def test_forms_obey_their_rules() -> None:
    layout = Layout()
    g = torch.Generator().manual_seed(0)
    notes, values = layout.draw(400, g, complete=True)
    back = notes.field.argsort(-1)  # position of each field
    note, value = notes.note.gather(1, back), values.gather(1, back) - ZERO
    assert torch.equal(value[:, 0:8:2], note[:, 0:8:2])
    assert torch.equal(value[:, 1:8:2], (value[:, 0:8:2] + note[:, 1:8:2]) % 7)
    assert torch.equal(value[:, 9:], (value[:, 8:-1] + note[:, 9:]) % 7) and torch.equal(value[:, 8], note[:, 8])
    notes, values = layout.draw(400, g, complete=False)
    value = values.gather(1, notes.field.argsort(-1))
    blank = value[:, 0:8:2] == BLANK
    assert (value[:, 1:8:2][blank] == ZERO).all() and 0.75 < blank.float().mean() < 0.85
    order = layout.rank(torch.arange(layout.fields)).argsort(descending=True, stable=True).tolist()
    assert sorted(order[:4]) == [0, 2, 4, 6] and order[4:9] == [8, 9, 10, 11, 12]


@pytest.fixture(scope="module")
def small() -> Puzzle:
    """A smaller form, so that this takes seconds; the example's own has 13 fields."""
    puzzle = forms(0, Layout(bills=2, chain=0, digits=3), steps=400)
    puzzle.fit(None)
    quick = {"iterations": 12, "generations": 64, "update_batch": 256, "validate_every": 12, "learning_rate": 3e-3}
    return replace(puzzle, settings=replace(puzzle.settings, **quick))  # type: ignore[arg-type]


def share(puzzle: Puzzle, order: Order, count: Count = ONE) -> float:
    return float(puzzle.task.solved(order, puzzle.test, count).float().mean())


def test_where_confidence_misleads_reinforcement_finds_the_order(small: Puzzle) -> None:
    assert small.known is not None and share(small, small.known) > 0.9
    assert max(share(small, HANDCRAFTED[n]) for n in ("uniform", "left2right", "confidence", "margin", "entropy")) < 0.7
    policy = PolicyTrainer(small.task, small.settings.policy(small.model.width, {}), small.settings).run()
    assert share(small, policy) >= 0.95 * share(small, small.known)


def test_and_how_many_positions_a_pass_may_write(small: Puzzle) -> None:
    s = replace(small.settings, several=True, price=0.1, iterations=40)
    trainer = PolicyTrainer(small.task, s.policy(small.model.width, {}), s)
    for _ in range(s.iterations):
        trainer.step()
    policy = trainer.policy.eval()
    state = small.task.start(small.test)
    done = decode(
        small.model, small.test.context, state, Decoder(Coordinates(policy, policy.count), small.task.symbols)
    )
    assert done.steps.float().mean() < 2.2  # amounts, then totals; one at a time it would be four
    assert share(small, policy, policy.count) >= 0.95 * share(small, small.known or policy)


def test_a_models_training_goes_on_where_it_stopped(tmp_path: Path) -> None:
    whole, halves = forms(0, Layout(2, 0, 3), steps=400), forms(0, Layout(2, 0, 3), steps=400)

    def draw(g: torch.Generator) -> tuple[object, torch.Tensor]:
        return Layout(2, 0, 3).draw(8, g, complete=False)

    assert fit(halves.model, draw, 5, 3e-3, kept=tmp_path / "model.pt", planned=9) > 0
    again = forms(1, Layout(2, 0, 3), steps=400)  # other weights, which the file replaces
    assert fit(whole.model, draw, 9, 3e-3) == fit(again.model, draw, 9, 3e-3, kept=tmp_path / "model.pt")
    for one, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(TrainingError, match="another number of steps"):
        fit(again.model, draw, 8, 3e-3, kept=tmp_path / "model.pt")


def test_a_run_measures_every_order_once_and_prints_the_mean_over_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(seed: int) -> Puzzle:
        puzzle = forms(seed, Layout(1, 0, 3), steps=20)
        quick = {"iterations": 2, "generations": 16, "update_batch": 16, "updates": 1, "validate_every": 2}
        test = puzzle.test.take(torch.arange(40))
        return replace(puzzle, test=test, known=None, settings=replace(puzzle.settings, **quick))  # type: ignore[arg-type]

    options = argparse.Namespace(seeds=[0, 1], method=["ppo", "imitation"], out=tmp_path, measure=False)
    run(make, options)
    said = capsys.readouterr().out
    assert "| order | forms, % of 2 seeds × 40 |" in said
    assert [line.split(" | ")[0][2:] for line in said.splitlines()[2:]] == [*HANDCRAFTED, "learned", "planner"]
    monkeypatch.setattr(Results, "put", lambda *a: pytest.fail("measured twice"))
    for measure in (False, True):
        options.measure = measure
        run(make, options)
        assert capsys.readouterr().out == said


def test_the_table_joins_puzzles_and_leaves_gaps(tmp_path: Path) -> None:
    for name, seed, order, solved in [
        ("forms", 0, "margin", 1),
        ("forms", 1, "margin", 3),
        ("colouring", 0, "known", 2),
    ]:
        (tmp_path / f"{name}-{seed}").mkdir()
        Results(tmp_path / f"{name}-{seed}" / "solved.json").put(order, "", solved, 4)
    lines = markdown([c for name in TITLES for c in columns(tmp_path, name)]).splitlines()
    assert lines[0] == "| order | forms, % of 2 seeds × 4 | colouring, % of 4 |"
    assert lines[2:] == ["| margin | 50.0 (25.0–75.0) |  |", "| known |  | 50.0 |"]
