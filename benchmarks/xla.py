"""A second device without a GPU: torch_xla on the CPU writes what the CPU writes.

torch_xla needs an older torch than the project, so it has an environment of its own (7 GB):

    python -m venv xla && xla/bin/pip install torch==2.9.0 torch_xla==2.9.0 && xla/bin/pip install .
    PJRT_DEVICE=CPU PYTHONPATH=.:tests xla/bin/python -m benchmarks.xla

Every recipe on the table model, a masked LM, a diffusion LM and a translation are run on both; the table says where
their results are the same, and how many operations fell back to the CPU in silence.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import anyorder
from anyorder import recipes
from anyorder.core import NoContext, begin, canvas, decode
from anyorder.core.devices import device_of
from anyorder.models import catalog
from anyorder.models.table import Table

TEXT = "the [MASK] sat on the [MASK] ."
SOURCES = ["Ein Hund läuft am Strand.", "Zwei Männer sitzen auf einer Bank."]


def main() -> None:
    import torch_xla.core.xla_model as xm
    import torch_xla.debug.metrics as met

    device = xm.xla_device()
    print(f"| on {device} | the same | fallbacks to the CPU |\n|---|---|---|")

    def tell(name: str, act: Callable[[torch.device], Any]) -> bool:
        here = act(torch.device("cpu"))
        met.clear_all()
        try:
            there = act(device)
        except Exception as error:  # whatever an operation of XLA's raises is a line of the table
            print(f"| {name} | {type(error).__name__}: {str(error).splitlines()[0][:90]} | |")
            return False
        fallen = {n.removeprefix("aten::"): met.counter_value(n) for n in met.counter_names() if n.startswith("aten::")}
        fallen.pop("_local_scalar_dense", None)  # a number that is read back
        print(f"| {name} | {'yes' if here == there else 'no'} | {', '.join(f'{n} {k}' for n, k in fallen.items())} |")
        return bool(here == there)

    good = [tell(name, lambda d, n=name: _recipe(n, d)) for name in recipes.every(4, 2)]
    with tempfile.TemporaryDirectory() as folder:
        good += [tell(name, act) for name, act in _texts(Path(folder)).items()]
    print(f"\n{sum(good)} of {len(good)} the same")
    raise SystemExit(not all(good))


def _recipe(name: str, device: torch.device) -> Any:
    table = Table(6, 3)
    tokens = canvas(torch.tensor([6, 4, 5]), table.mask_id, table.pad_id).to(device)
    state = begin(tokens, table.mask_id, table.pad_id, seed=3)
    return decode(table, NoContext(), state, recipes.every(4, 2)[name]).tokens.tolist()


def _texts(folder: Path) -> dict[str, Callable[[torch.device], Any]]:
    from cli_support import build_bert, build_diffusion

    def writer(built: Path, device: torch.device) -> Any:
        loaded: Any = anyorder.load(built)
        loaded.model.to(device)
        assert device_of(loaded.model).type == device.type
        return loaded

    def translated(device: torch.device) -> list[str]:
        translator: Any = anyorder.load("de-en", kind="translation")
        model = catalog.found("de-en").model()
        translator.model = model.to(device)
        options = {"order": "easy-first", "lengths": 3, "beam": 2}
        return [t.text for o in ({}, options) for t in translator.translate(SOURCES, to="en", **o)]

    bert, llama = build_bert(folder / "bert"), build_diffusion(folder / "llama")
    return {
        "masked LM, fill": lambda d: [f.ids for f in writer(bert, d).fill(TEXT, n=3)],
        "masked LM, generate": lambda d: [f.ids for f in writer(bert, d).generate(length=6, n=2)],
        "diffusion LM, llada": lambda d: [f.ids for f in writer(llama, d).generate(length=8, n=2, order="llada(4, 4)")],
        "diffusion LM, drawn": lambda d: [f.ids for f in writer(llama, d).generate(length=8, n=2)],
        "translation": translated,
    }


if __name__ == "__main__":
    main()
