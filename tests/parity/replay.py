"""Replay recorded generations of other systems through the engine, and compare every recorded field."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyorder.core import Beam, Decoder, Result, State, begin, canvas, decode
from anyorder.lab import authors, systems
from anyorder.models.masked_translation import JointContext, MaskedTranslation
from anyorder.models.translation import Source

Record = dict[str, Any]
Fields = dict[str, Any]  # what a replay produced, by the names that records use
TOLERANCE = 1e-3  # of scores; everything else must be equal
ROWS, CELLS = 64, 2048  # records replayed together, and their canvases' positions
DEFAULTS = {"passes": 1}  # of settings that a record may leave out


class RecordError(ValueError):
    """A record that cannot be replayed: says where and why."""


@dataclass(frozen=True)
class Batch:
    """Records of equal settings as one batched state."""

    model: MaskedTranslation
    records: Sequence[Record]
    context: JointContext
    state: State

    def __getitem__(self, setting: str) -> Any:
        return self.records[0][setting]

    @property
    def lengths(self) -> Tensor:
        return self.state.length


@dataclass(frozen=True)
class Method:
    """How one procedure of one system is replayed."""

    settings: tuple[str, ...]
    run: Callable[[Batch], list[Fields]]
    prompted: bool = False  # `prompt` then masks to the canvas's end, no closing </s>


def _rows(batch: Batch, tokens: Tensor, **fields: Tensor) -> list[Fields]:
    """Tensors (N, …) as one dict a record; token and position rows are cut to the open positions."""
    n = len(batch.records)
    out: list[Fields] = [{"tokens": tokens[i][batch.state.open[i]].tolist()} for i in range(n)]
    for name, values in fields.items():
        for i in range(n):
            value = values[i].tolist()
            out[i][name] = value[: int(batch.lengths[i])] if name == "positions" else value
    return out


def _decode(batch: Batch, decoder: Decoder, watch: authors.FirstPass | None = None) -> Result:
    return decode(batch.model, batch.context, batch.state, decoder, watch=watch)


def _greedy(batch: Batch) -> list[Fields]:
    seen = authors.FirstPass.of(batch.state)
    result = _decode(batch, authors.greedy(batch["strategy"], batch["passes"]), seen)
    return _rows(batch, result.tokens, score=authors.greedy_score(result), positions=seen.positions)


def _best(batch: Batch, found: Beam, **fields: Tensor) -> list[Fields]:
    return _rows(batch, found.tokens[:, 0], score=found.score[:, 0], **fields)


def _beam(batch: Batch) -> list[Fields]:
    seen = authors.FirstPass.of(batch.state)
    settings = batch["strategy"], batch["beam"], batch["passes"]
    found = authors.beam(batch.model, batch.context, batch.state, *settings, watch=seen)
    return _best(batch, found, all_scores=found.score, positions=seen.positions)


def _constant_time(batch: Batch) -> list[Fields]:
    result = _decode(batch, authors.constant_time(batch["strategy"], batch["steps"], batch["schedule"]))
    return _rows(batch, result.tokens, score=authors.constant_time_score(result, batch.lengths))


def _mask_predict(batch: Batch) -> list[Fields]:
    result = _decode(batch, systems.mask_predict(batch["steps"]))
    return _rows(batch, result.tokens, score=result.logp.sum(-1))


def _easy_first_beam(batch: Batch) -> list[Fields]:
    return _best(batch, systems.easy_first_beam(batch.model, batch.context, batch.state, batch["beam"]))


def _llada(batch: Batch) -> list[Fields]:
    return _rows(batch, _decode(batch, systems.llada(batch["steps"], batch["block"], batch["gen_length"])).tokens)


def _fast_dllm(batch: Batch) -> list[Fields]:
    result = _decode(batch, systems.fast_dllm(batch["threshold"], batch["block"]))
    return _rows(batch, result.tokens, forwards=result.steps)


METHODS: dict[tuple[str, str], Method] = {
    ("dl4mt-seqgen", "greedy"): Method(("strategy", "passes"), _greedy),
    ("dl4mt-seqgen", "beam"): Method(("strategy", "passes", "beam"), _beam),
    ("dl4mt-seqgen", "constant-time"): Method(("strategy", "schedule", "steps"), _constant_time),
    ("Mask-Predict", "mask_predict"): Method(("steps",), _mask_predict),
    ("Mask-Predict", "easy_first_beam"): Method(("beam",), _easy_first_beam),
    ("LLaDA", "low_confidence"): Method(("steps", "block", "gen_length"), _llada, prompted=True),
    ("Fast-dLLM", "threshold"): Method(("threshold", "block", "gen_length"), _fast_dllm, prompted=True),
}


def read(path: str | Path) -> list[Record]:
    """The records of a JSON-lines file, each with its `line`, checked for the fields that a replay needs."""
    records = []
    for line, text in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if not text.strip():
            continue
        try:
            record = DEFAULTS | json.loads(text) | {"line": line}
        except (json.JSONDecodeError, TypeError) as error:
            raise RecordError(f"{path}, line {line}: not a JSON object ({error})") from None
        method = METHODS.get((record.get("system"), record.get("method")))
        if method is None:
            known = "; ".join(f"{system} {name}" for system, name in METHODS)
            found = f"{record.get('system')!r} {record.get('method')!r}"
            raise RecordError(f"{path}, line {line}: no replay of system and method {found}: there are {known}")
        needed = ("direction", "source", "tokens", *method.settings, "prompt" if method.prompted else "length")
        missing = [name for name in needed if name not in record]
        if missing:
            raise RecordError(f"{path}, line {line}: a record of this method needs {', '.join(missing)}")
        records.append(record)
    if not records:
        raise RecordError(f"{path}: holds no records")
    return records


def batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Records of equal settings together, of similar length first."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        settings = METHODS[record["system"], record["method"]].settings
        key = json.dumps([record[name] for name in ("system", "method", *settings)])
        groups.setdefault(key, []).append(record)
    for group in groups.values():
        group.sort(key=lambda record: len(record["tokens"]))
        rows = max(1, min(ROWS, CELLS // max(1, len(group[-1]["tokens"]))))
        yield from (group[i : i + rows] for i in range(0, len(group), rows))


def replay(model: MaskedTranslation, records: Sequence[Record]) -> list[list[str]]:
    """For each of some records of equal settings, what differs: nothing where the replay is identical."""
    method = METHODS[records[0]["system"], records[0]["method"]]
    try:
        produced = method.run(_batch(model, records, method.prompted))
    except (ValueError, KeyError) as error:
        raise RecordError(f"line {records[0]['line']}: {error}") from error
    return [differences(record, fields) for record, fields in zip(records, produced, strict=True)]


def differences(record: Record, produced: Fields) -> list[str]:
    """One sentence for each recorded field that was not reproduced."""
    out = []
    for name, ours in produced.items():
        theirs = record.get(name)
        if theirs is None:
            continue
        if name == "all_scores":
            theirs = sorted(theirs, reverse=True)
        if name in ("score", "all_scores"):
            a, b = torch.tensor(ours).double().reshape(-1), torch.tensor(theirs).double().reshape(-1)
            same = a.shape == b.shape and bool(((a - b).abs() <= TOLERANCE).all())
        else:
            same = ours == theirs
        if not same:
            out.append(f"{name}: ours {ours}, theirs {theirs}")
    return out


def _batch(model: MaskedTranslation, records: Sequence[Record], prompted: bool) -> Batch:
    pad, mask, eos = model.pad_id, model.mask_id, model.special.eos
    languages = [[_language(model, record, side) for record in records] for side in (0, 1)]
    source = _padded([record["source"] for record in records], pad)
    context = model.encode(Source(source, torch.tensor(languages[0]), torch.tensor(languages[1]), close=not prompted))
    if not prompted:
        lengths = torch.tensor([record["length"] for record in records])
        return Batch(model, records, context, begin(canvas(lengths, mask, pad), mask, pad))
    rows, fixed = [], []
    for record in records:
        start = [eos, *record["source"], eos, eos]
        if record["prompt"][: len(start)] != start:
            raise RecordError(f"line {record['line']}: the prompt is not `</s> source </s> </s>` and a beginning")
        beginning = record["prompt"][len(start) :]
        rows.append(beginning + [mask] * record["gen_length"])
        fixed.append([0] * len(beginning) + [1] * record["gen_length"])
    state = begin(_padded(rows, pad), mask, pad, open=_padded(fixed, 0).bool())
    return Batch(model, records, context, state)


def _language(model: MaskedTranslation, record: Record, side: int) -> int:
    names = str(record["direction"]).split("-")
    if len(names) != 2 or names[side] not in model.languages:
        known = ", ".join(model.languages)
        raise RecordError(f"line {record['line']}: direction {record['direction']!r} is not between {known}")
    return model.languages.index(names[side])


def _padded(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])
