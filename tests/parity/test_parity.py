"""Our engine gives what other systems gave: recorded outputs, independent loops at other settings, and the runner."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from anyorder import recipes
from anyorder.core import Decoder, View, begin, canvas, decode
from anyorder.core.count import Ranked
from anyorder.lab import authors, systems
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.translation import Source
from anyorder.models.xlm import load_xlm

from . import naive
from .__main__ import main
from .replay import METHODS, Record, RecordError, batches, read, replay

RECORDS = Path(__file__).parent / "records"
GOLDEN, CHECKPOINT = RECORDS / "golden.jsonl", RECORDS / "xlm-de-en.pth"
QUICK = slice(3, 12, 8)  # which sentences of each direction; `python -m tests.parity` replays everything


@pytest.fixture(scope="module")
def model() -> MaskedTranslation:
    return load_xlm(CHECKPOINT)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return read(GOLDEN)


def _sentences(records: list[Record], which: slice) -> dict[tuple[str, tuple[int, ...]], Record]:
    """Some of each direction's different sources, with a record of each."""
    found: dict[str, dict[tuple[str, tuple[int, ...]], Record]] = {}
    for r in records:
        found.setdefault(r["direction"], {}).setdefault((r["direction"], tuple(r["source"])), r)
    return dict(pair for sources in found.values() for pair in list(sources.items())[which])


@pytest.mark.parametrize(("system", "method"), list(METHODS))
def test_recorded_outputs(model: MaskedTranslation, records: list[Record], system: str, method: str) -> None:
    quick = _sentences(records, QUICK)
    mine = [r for r in records if (r["system"], r["method"]) == (system, method)]
    mine = [r for r in mine if (r["direction"], tuple(r["source"])) in quick]
    assert mine
    for batch in batches(mine):
        wrong = {f"line {r['line']}": w for r, w in zip(batch, replay(model, batch), strict=True) if w}
        assert not wrong


def _variants() -> list[Record]:
    """Settings that the recordings do not have."""
    seqgen = [
        {"method": "greedy", "strategy": "most2least", "passes": 3},
        {"method": "greedy", "strategy": [1.0, 0.5, 0.3], "passes": 2},
        {"method": "greedy", "strategy": [0.0, -0.7, -1.0], "passes": 1},
        {"method": "beam", "strategy": "most2least", "passes": 2, "beam": 3},
        {"method": "beam", "strategy": [1.0, 0.5, 0.3], "passes": 2, "beam": 5},
        {"method": "constant-time", "strategy": "most2least", "schedule": "linear", "steps": 7},
        {"method": "constant-time", "strategy": "easy_first_0.3", "schedule": "constant", "steps": 3},
        {"method": "constant-time", "strategy": "left2right", "schedule": "constant", "steps": 30},
        {"method": "constant-time", "strategy": "easy_first", "schedule": "all", "steps": 3},
    ]
    masks = [{"method": "mask_predict", "steps": T} for T in (1, 7, 25)]
    masks += [{"method": "easy_first_beam", "beam": K} for K in (2, 3)]
    sizes = {"gen_length": 8}
    llada = [{"method": "low_confidence", "steps": T, "block": B} | sizes for T, B in ((8, 2), (6, 4), (2, 8), (16, 4))]
    fast = [{"method": "threshold", "threshold": p, "block": B} | sizes for p, B in ((0.3, 2), (0.95, 8), (0.0, 4))]
    systems = (("dl4mt-seqgen", seqgen), ("Mask-Predict", masks), ("LLaDA", llada), ("Fast-dLLM", fast))
    return [{"system": system} | record for system, group in systems for record in group]


def _naively(model: MaskedTranslation, r: Record) -> Record:
    """A record completed by the independent loops."""
    prompted = r["system"] in ("LLaDA", "Fast-dLLM")
    sides = tuple(model.languages.index(name) for name in r["direction"].split("-"))
    logp = naive.log_probabilities(model, r["source"], (sides[0], sides[1]), close=not prompted)
    mask, L, out = model.mask_id, r["length"], dict[str, Any]()
    weights = authors.weights(r["strategy"]) if "strategy" in r else None
    match r["method"]:
        case "greedy":
            assert weights
            out["tokens"], out["positions"], out["score"] = naive.greedy(logp, mask, L, weights, r["passes"])
        case "beam":
            assert weights
            out["positions"] = naive.greedy(logp, mask, L, weights, 1)[1]
            found = naive.beam(logp, mask, L, out["positions"], r["beam"], r["passes"])
            out["all_scores"] = [score for score, _ in found]
            out["score"], out["tokens"] = found[0]
        case "constant-time":
            assert weights
            out["tokens"], out["score"] = naive.constant_time(logp, mask, L, weights, r["steps"], r["schedule"])
        case "mask_predict":
            out["tokens"], out["score"] = naive.mask_predict(logp, mask, L, r["steps"])
        case "easy_first_beam":
            out["tokens"], out["score"] = naive.easy_first_beam(logp, mask, L, r["beam"])
    if prompted:
        begun = r["begun"]
        out["prompt"] = [1, *r["source"], 1, 1, *begun]
        if r["method"] == "threshold":
            found_, forwards = naive.threshold(logp, mask, begun, r["gen_length"], r["threshold"], r["block"])
            out["tokens"], out["forwards"] = found_, forwards
        else:
            out["tokens"] = naive.low_confidence(logp, mask, begun, r["gen_length"], r["steps"], r["block"])
    return r | out


@pytest.mark.parametrize("settings", _variants(), ids=lambda r: "-".join(str(v) for v in r.values()))
def test_other_settings(model: MaskedTranslation, records: list[Record], settings: Record) -> None:
    begun = ([], [15, 74])
    made = []
    with torch.inference_mode():
        for n, r in enumerate(_sentences(records, slice(2)).values()):
            given = {name: r[name] for name in ("direction", "source")} | {"line": n, "length": 5 + 2 * n}
            made.append(_naively(model, given | settings | {"begun": begun[n % 2]}))
    assert replay(model, made) == [[]] * len(made)


def test_reference_leaves_masks_and_recipes_do_not(model: MaskedTranslation, records: list[Record]) -> None:
    left = [r for r in records if model.mask_id in r["tokens"]]
    assert {r["method"] for r in left} == {"constant-time"}
    for r in left[::12]:
        context = model.encode(Source(torch.tensor([r["source"]]), *_sides(model, r)))
        state = begin(canvas(torch.tensor([r["length"]]), model.mask_id, model.pad_id), model.mask_id, model.pad_id)
        theirs = decode(model, context, state, authors.constant_time(r["strategy"], r["steps"], r["schedule"]))
        ours = decode(model, context, state, recipes.constant_time(r["steps"]))
        assert model.mask_id in theirs.tokens and model.mask_id not in ours.tokens


def _sides(model: MaskedTranslation, r: Record) -> tuple[int, int]:
    source, target = r["direction"].split("-")
    return model.languages.index(source), model.languages.index(target)


DEFAULTS: dict[str, Decoder] = recipes.STRATEGIES | {
    "two-pass": recipes.two_pass(recipes.easy_first),
    "annealed": recipes.annealed(4),
    "constant-time": recipes.constant_time(4),
    "mask-predict": recipes.mask_predict(4),
    "llada": recipes.llada(2, 4),
    "fast-dllm": recipes.fast_dllm(0.9, 4),
    "refinement": recipes.refinement(3),
    "the code's counts": authors.constant_time("easy_first", 4, "constant", authors.Switches(leave_masks=False)),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_model_that_prefers_the_mask_still_leaves_none(records: list[Record], name: str) -> None:
    model = load_xlm(CHECKPOINT)
    model.transformer.proj_bias[model.mask_id] += 30
    source = torch.tensor([records[0]["source"]]).expand(6, -1)
    lengths = torch.tensor([1, 2, 5, 7, 9, 13])
    state = begin(canvas(lengths, model.mask_id, model.pad_id), model.mask_id, model.pad_id)
    context = model.encode(Source(source, 0, 1))
    assert model.mask_id not in decode(model, context, state, DEFAULTS[name]).tokens
    stubborn = decode(model, context, state, systems.mask_predict(3))
    assert bool((stubborn.tokens[state.open] == model.mask_id).all())


@pytest.fixture(scope="module")
def state_and_context(model: MaskedTranslation, records: list[Record]) -> tuple[Any, Any]:
    sources = [r["source"] for r in _sentences(records, slice(3)).values() if r["direction"] == "de-en"]
    width = min(map(len, sources))
    rows = torch.tensor([source[:width] for source in sources])
    lengths = torch.arange(len(rows)) + 7
    state = begin(canvas(lengths, model.mask_id, model.pad_id), model.mask_id, model.pad_id)
    return state, model.encode(Source(rows, 0, 1))


def test_every_switch_changes_something(model: MaskedTranslation, state_and_context: tuple[Any, Any]) -> None:
    state, context = state_and_context

    def outputs(switches: authors.Switches) -> list[Any]:
        mixed = decode(model, context, state, authors.greedy((1.0, 1.0, 1.0), 2, switches))
        again = decode(model, context, state, authors.greedy("most2least", 1, switches))
        constant = decode(model, context, state, authors.constant_time("easy_first", 4, "constant", switches))
        found = authors.beam(model, context, state, "easy_first", 2, 2, switches=switches)
        unsure = decode(model, context, state, authors.greedy((-1.0, 0.0, 0.0), 1, switches))  # judges what is written
        parts = (mixed, again, constant, found, unsure)
        return [[part.tokens.tolist(), (part.score * 1000).round().tolist()] for part in parts]

    code = outputs(authors.CODE)
    for switch in fields(authors.Switches):
        assert outputs(replace(authors.CODE, **{switch.name: False})) != code, switch.name


@pytest.mark.parametrize("name", ["left2right", "least2most", "easy_first"])
def test_all_switches_off_is_the_recipe(
    model: MaskedTranslation, state_and_context: tuple[Any, Any], name: str
) -> None:
    state, context = state_and_context
    recipe = recipes.STRATEGIES[name.replace("_", "-") if name == "easy_first" else name]
    for passes, ours in ((1, recipe), (2, recipes.masked_conditionals(recipes.two_pass(recipe)))):
        theirs = decode(model, context, state, authors.greedy(name, passes, authors.PAPER))
        assert torch.equal(theirs.tokens, decode(model, context, state, ours).tokens)


def test_counts_round_as_floating_point() -> None:
    """⌊L·((T − t)/T)⌋ in double precision is not always the whole-number division."""
    differ = 0
    for T in range(1, 40):
        L = torch.arange(T, 60)
        state = begin(canvas(L * 0 + 60, 0, 1), mask_id=0, pad_id=1)
        ranked = Ranked(state.open, torch.arange(60).expand(len(L), -1), L)
        for t in range(T):
            ours = authors._linear(T)(replace(state, step=t), View(state.tokens, state.logp), ranked).sum(-1).tolist()
            assert ours == [max(int(length * ((T - t) / T)), 1) for length in L.tolist()]
            differ += ours != [max(length * (T - t) // T, 1) for length in L.tolist()]
    assert differ


def test_strategies_by_name_and_by_weights() -> None:
    assert authors.weights("hard_first") == (-1, 1, 0)
    assert authors.weights("easy_first_0.25") == (1, 0.25, 0)
    assert authors.weights([0.5, 0, 2]) == (0.5, 0, 2)
    with pytest.raises(ValueError, match=r"unknown strategy 'easiest'.*left2right"):
        authors.weights("easiest")
    with pytest.raises(ValueError, match="cannot be replayed"):
        authors.weights("uniform")
    with pytest.raises(ValueError, match="nothing is preferred"):
        authors.greedy((0, 0, 0))
    with pytest.raises(ValueError, match="unknown schedule 'cosine'"):
        authors.constant_time("easy_first", 4, "cosine")
    with pytest.raises(ValueError, match="whole blocks"):
        systems.llada(steps=5, block=4, length=12)


def _write(path: Path, records: list[Record]) -> str:
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return str(path)


def test_the_runner(records: list[Record], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = [next(r for r in records if (r["system"], r["method"]) == key) for key in METHODS]
    some[1] = {name: value for name, value in some[1].items() if name != "passes"}  # a beam has one pass by default
    good = _write(tmp_path / "good.jsonl", some)
    assert main([good, "--model", str(CHECKPOINT)]) == 0
    assert f"{len(some)} / {len(some)}" in capsys.readouterr().out

    changed = [dict(r) for r in some]
    changed[0]["tokens"] = [*changed[0]["tokens"][:-1], 9]
    changed[1]["score"] += 0.002
    changed[6]["forwards"] += 1
    bad = _write(tmp_path / "bad.jsonl", changed)
    assert main([good, bad, "--model", str(CHECKPOINT)]) == 1
    out = capsys.readouterr().out
    assert f"{len(some) - 3} / {len(some)}" in out and "tokens: ours" in out and "forwards: ours" in out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strategy": "easiest"}, "unknown strategy 'easiest'"),
        ({"method": "sample"}, "no replay of system and method 'dl4mt-seqgen' 'sample'"),
        ({"direction": "de-fr"}, "direction 'de-fr' is not between de, en"),
        ({"strategy": None, "length": None}, "needs strategy, length"),
    ],
)
def test_the_runner_says_what_is_wrong(
    records: list[Record], tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Record, message: str
) -> None:
    record = {name: value for name, value in (records[0] | change).items() if value is not None}
    path = _write(tmp_path / "odd.jsonl", [record])
    assert main([path, "--model", str(CHECKPOINT)]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_file_that_is_not_json(tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text("{")
    with pytest.raises(RecordError, match="line 1: not a JSON object"):
        read(tmp_path / "odd.jsonl")


def test_the_old_name_of_reference_mode_still_works() -> None:
    sys.modules.pop("anyorder.reference", None)
    with pytest.deprecated_call():
        old = importlib.import_module("anyorder.reference")
    assert old.authors is authors and importlib.import_module("anyorder.reference.systems") is systems
