"""Each kind of record of a published folder, held against what `anyorder.load(folder)` gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

import anyorder
from anyorder.core import Cost
from anyorder.text.plan import Plan
from anyorder.text.rows import Canvas, Input

TOLERANCE = 1e-3  # of logits, which were computed by other kernels
Record = dict[str, Any]


class RecordError(ValueError):
    """A file of records that cannot be read."""


def read(folder: Path) -> list[Record]:
    """The records of a folder, each with the line that it stands in."""
    records = []
    try:
        lines = (folder / "golden.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise RecordError(f"{folder / 'golden.jsonl'} cannot be read: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            record["what"]
        except (ValueError, KeyError, TypeError) as error:
            raise RecordError(f"{folder / 'golden.jsonl'}, line {number}: no record ({error})") from None
        records.append({**record, "line": number})
    return records


def kind(record: Record) -> str:
    """What a record is a record of."""
    method = record.get("method")
    return record["what"] + (f", {method}" if method else "") + (", threshold" if "threshold" in record else "")


def replay(writer: Any, record: Record) -> str | None:
    """What is different; None where the record comes out."""
    check = CHECKS.get(record["what"])
    return f"nothing here replays a record of {record['what']!r}" if check is None else check(writer, record)


@torch.inference_mode()
def _logits(writer: Any, record: Record) -> str | None:
    """The model's own logits, before any shift: `hidden` has them shifted already."""
    model = writer.model
    tokens = torch.tensor([record["tokens"]])
    states = model._run(model.body, tokens)[0]
    logits = model.logits(states)
    if logits.argmax(-1).tolist() != record["argmax"]:
        return "another symbol is the most probable one"
    wanted, total = torch.tensor(record["logits"]), torch.tensor(record["logsumexp"])
    gap = max(
        float((logits[:, record["columns"]] - wanted).abs().max()), float((logits.logsumexp(-1) - total).abs().max())
    )
    return None if gap <= TOLERANCE else f"logits differ by {gap:.2g}"


def _tokenise(writer: Any, record: Record) -> str | None:
    return _same("tokens", writer.tokenizer.encode(record["text"], add_special_tokens=False), record["tokens"])


def _chat(writer: Any, record: Record) -> str | None:
    text = writer.tokenizer.apply_chat_template(record["messages"], tokenize=False, add_generation_prompt=True)
    found = writer.tokenizer.encode(text, add_special_tokens=False)
    return _same("text", text, record["text"]) or _same("tokens", found, record["tokens"])


def _generate(writer: Any, record: Record) -> str | None:
    length, prompt = record["gen_length"], record["prompt"]
    order = ORDERS.get(record["method"])
    if order is None:
        return f"nothing here replays the method {record['method']!r}"
    before = Cost.total([writer.cost])
    canvas = Canvas((*prompt, *[writer.model.mask_id] * length))
    (found,) = writer.generator.generate([Input(canvases=(canvas,))], Plan.of(order(record)))[0]
    forwards = writer.cost.forwards - before.forwards
    wrong = _same("tokens", list(found.ids[len(prompt) :]), record["tokens"])
    return wrong or _same("forwards", forwards, record.get("forwards", forwards))


def _low_confidence(record: Record) -> str:
    size = record["block_length"]
    if "threshold" in record:
        return f"fast-dllm({record['threshold']}, {size})"
    return f"llada({record['steps'] * size // record['gen_length']}, {size})"


def _dream(record: Record) -> str:
    return f"dream({record['steps']}, {record['method']})"


ORDERS: Mapping[str, Callable[[Record], str]] = {
    "low_confidence": _low_confidence,
    **dict.fromkeys(("maskgit_plus", "topk_margin", "entropy"), _dream),
}
CHECKS: Mapping[str, Callable[[Any, Record], str | None]] = {
    "logits": _logits,
    "tokenise": _tokenise,
    "chat": _chat,
    "generate": _generate,
}


def _same(what: str, found: Any, wanted: Any) -> str | None:
    return None if found == wanted else f"{what}: {found}\n  recorded: {wanted}"


def load(folder: Path) -> Any:
    """The model of a folder, which is told nothing but where it lies."""
    return anyorder.load(folder)
