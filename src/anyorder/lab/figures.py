"""The figures as SVG text: generation orders, energy, the frontier. The same data gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anyorder.errors import extra
from anyorder.lab.generations import Cluster

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLOURS = ("#0b6e99", "#d9730d", "#0f7b6c", "#ad1a72", "#6940a5", "#64473a", "#9b9a97")


def _canvas(rows: int, columns: int, width: float, height: float, **shared: Any) -> tuple[Any, Any]:
    with extra("report"):
        import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    style: Any = {
        "svg.hashsalt": "anyorder", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#e6e6e4",
        "axes.axisbelow": True, "figure.facecolor": "white",
    }  # fmt: skip
    plt.rcParams.update(style)
    return plt.subplots(rows, columns, figsize=(width, height), squeeze=False, layout="constrained", **shared)


def _svg(figure: Any) -> str:
    import matplotlib.pyplot as plt

    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = file.getvalue()
    return text[text.index("<svg") :]


def orders(found: Mapping[tuple[str, str], Sequence[Cluster]]) -> str:
    """Cluster centres as curves, thickness by size: a column per strategy, a row per direction. Keys: (row, column)."""
    rows, columns = list(dict.fromkeys(r for r, _ in found)), list(dict.fromkeys(c for _, c in found))
    figure, axes = _canvas(len(rows), len(columns), 2.9 * len(columns), 2.4 * len(rows) + 0.3, sharex=True, sharey=True)
    for (row, column), groups in found.items():
        ax = axes[rows.index(row)][columns.index(column)]
        for colour, cluster in zip(COLOURS, groups, strict=False):
            x = np.linspace(0, 1, len(cluster.centre))
            label = f"{cluster.share:.0%} {cluster.name}"
            ax.plot(x, cluster.centre, color=colour, linewidth=1 + 9 * cluster.share, alpha=0.85, label=label)
        ax.set_title(f"{column}, {row}")
        ax.legend(fontsize=6, loc="best", framealpha=0.7)
    for ax in axes[-1]:
        ax.set_xlabel("generation, start to end")
    for line in axes:
        line[0].set_ylabel("position, left to right")
    return _svg(figure)


def energy(curves: Mapping[str, Mapping[str, NDArray[np.float64]]], label: str) -> str:
    """Curves over relative time, a panel a direction: {direction: {strategy: values}}."""
    figure, axes = _canvas(1, len(curves), 4.2 * len(curves), 3.0)
    for ax, (direction, lines) in zip(axes[0], curves.items(), strict=True):
        for colour, (name, values) in zip(COLOURS, lines.items(), strict=False):
            ax.plot(np.linspace(0, 1, len(values)), values, color=colour, label=name)
        ax.set_title(direction)
        ax.set_xlabel("generation, start to end")
        ax.legend(fontsize=7)
    axes[0][0].set_ylabel(label)
    return _svg(figure)


def frontier(
    points: Mapping[str, Mapping[str, tuple[float, float]]],
    label: str = "passes through the model, a target length (log)",
) -> str:
    """BLEU against passes, a panel a direction: {direction: {name: (passes, BLEU)}}; the best are joined."""
    figure, axes = _canvas(len(points), 1, 7.5, 4.6 * len(points))
    for ax, (direction, named) in zip(axes[:, 0], points.items(), strict=True):
        best = pareto(named)
        ax.plot([named[n][0] for n in best], [named[n][1] for n in best], color=COLOURS[0], linewidth=1.2, zorder=2)
        for name, (passes, bleu) in named.items():
            on = name in best
            ax.scatter([passes], [bleu], s=28, color=COLOURS[0] if on else COLOURS[6], zorder=3)
            style = dict(fontsize=7, color="#222222" if on else "#777777")
            ax.annotate(name, (passes, bleu), xytext=(4, 4), textcoords="offset points", **style)
        ax.set_xscale("log")
        ax.set_title(direction)
        ax.set_xlabel(label)
        ax.set_ylabel("BLEU")
    return _svg(figure)


def pareto(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Those that nothing cheaper equals or beats, cheapest first."""
    out: list[str] = []
    for name in sorted(points, key=lambda n: (points[n][0], -points[n][1], n)):
        if not out or points[name][1] > points[out[-1]][1]:
            out.append(name)
    return out
