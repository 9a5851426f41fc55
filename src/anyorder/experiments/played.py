"""Watched generations as a part of a page: in which orders they were written, their energies, and some to play."""

from __future__ import annotations

from anyorder.experiments import energy, figures, grid
from anyorder.experiments.generations import Watched
from anyorder.experiments.grid import Scope
from anyorder.experiments.orders import Cluster, clusters, monotone_share
from anyorder.experiments.report import Block, Figure, Heading, Shown, Steps, Viewer, steps_of
from anyorder.experiments.tables import TextTable, title
from anyorder.traces.page import page as viewer_page

SAMPLES = 4  # generations shown in the viewer, each by every order


def played(scope: Scope, seen: dict[tuple[str, str], list[Watched]]) -> list[Block]:
    """Headings and what is below them; nothing, where nothing was watched."""
    if not seen:
        return []
    out: list[Block] = [Heading("Generation orders")]
    groups: dict[tuple[str, str], list[Cluster]] = {
        (title(d), order): clusters(some) for (d, order), some in seen.items() if order in grid.ADAPTIVE
    }
    shares = [[title(d), order, f"{monotone_share(some):.0%}"] for (d, order), some in seen.items()]
    out.append(Figure("orders", figures.orders(groups), "k-means of 10-dimensional generation orders, on val."))
    out.append(Shown(TextTable(["", "order", "steps to the next position on the right"], shares)))
    for (direction, order), found in groups.items():
        for cluster in found:
            name = f"{order}, {direction}: {cluster.name} ({cluster.share:.0%} of the generations)"
            out.append(Steps(steps_of(cluster.example.trace, cluster.example.reference), name))
    out += [Heading("Energy over the steps"), *_energy(scope, seen)]
    out += [Heading("Sample generations"), _samples(seen)]
    return out


def _energy(scope: Scope, seen: dict[tuple[str, str], list[Watched]]) -> list[Block]:
    curves = {
        title(d): {order: energy.mean_curve(some) for (e, order), some in seen.items() if e == d}
        for d in scope.directions
    }
    curves = {name: lines for name, lines in curves.items() if lines}
    apart = {name: energy.differences(lines) for name, lines in curves.items()}
    out: list[Block] = [
        Figure("energy", figures.energy(curves, "energy"), "Energy (−Σ logit of what is written) over the generation."),
    ]
    if all(apart.values()):
        label = "energy − that of uniform"
        out.append(Figure("energy-difference", figures.energy(apart, label), "Below zero: likelier than uniform's."))
    last = [[name, *(f"{line[-1]:.1f}" for line in lines.values())] for name, lines in curves.items()]
    out.append(Shown(TextTable(["at the end", *next(iter(curves.values()))], last)))
    return out


def _samples(seen: dict[tuple[str, str], list[Watched]]) -> Viewer:
    traces = [some[i].trace for i in range(SAMPLES) for some in seen.values() if i < len(some)]
    return Viewer("samples", viewer_page(traces, "Sample generations"), "Sample generations, played step by step")
