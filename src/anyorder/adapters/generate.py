"""`anyorder.generate(model, input_ids, …)`: as transformers' `model.generate`, and by LLaDA's and Dream's own names.

It writes behind `input_ids`, or, where these hold masks, in their place. An argument without effect is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anyorder.errors import PlanError
from anyorder.text.plan import Plan
from anyorder.text.rows import Canvas, Input

if TYPE_CHECKING:
    from anyorder.text.language_model import LanguageModel

LLADA = ("steps", "gen_length", "block_length", "cfg_scale", "remasking", "threshold", "mask_id")
DREAM = ("alg", "alg_temp", "eps")
TRANSFORMERS = (
    "max_new_tokens", "max_length", "do_sample", "temperature", "top_k", "top_p", "num_beams", "num_return_sequences",
    "seed", "pad_token_id", "eos_token_id", "bos_token_id", "mask_token_id", "return_dict_in_generate", "use_cache",
)  # fmt: skip
OURS = ("order", "count", "among")
NEUTRAL: Mapping[str, tuple[Any, ...]] = {  # values that say what happens anyway
    "alg_temp": (None, 0, 0.0), "eps": (None, 1e-3), "cfg_scale": (None, 0, 0.0), "use_cache": (None, False),
    "return_dict_in_generate": (None, False), "bos_token_id": (None,), "pad_token_id": (None,), "do_sample": (None,),
    "eos_token_id": (None,),
}  # fmt: skip


def generate(
    model: LanguageModel,
    input_ids: Tensor | Sequence[Sequence[int]] | None = None,
    attention_mask: Tensor | None = None,
    generation_config: Any = None,
    streamer: Any = None,
    **how: Any,
) -> Tensor:
    """Token ids (N, L), prompts included, by the argument names that people know.

    transformers': max_new_tokens, do_sample, temperature, top_k, top_p, num_beams, num_return_sequences. LLaDA's:
    steps, gen_length, block_length, cfg_scale, remasking. Dream's: steps, alg, alg_temp, eps. And anyorder's own order,
    count and among. Rows may be padded on the left, as `attention_mask` says; a streamer is given the beginning that
    is finished, step by step.
    """
    how = {**_config(generation_config), **{name: value for name, value in how.items() if value is not None}}
    known = {*LLADA, *DREAM, *TRANSFORMERS, *OURS}
    if strange := sorted(how.keys() - known):
        raise PlanError(f"generate has no argument {', '.join(strange)}; there are {', '.join(sorted(known))}")
    rows = _rows(model, input_ids, attention_mask)
    length = _length(how, rows)
    plan = _plan(model, how, length)
    _unused(how)
    copies = int(how.pop("num_return_sequences", None) or 1)
    mask = model.model.mask_id
    if length == 0 and not all(mask in row for row in rows):
        raise PlanError("say how much to write: max_new_tokens=… (or gen_length=…), or write masks into input_ids")
    canvases = [(*row, *[mask] * length) for row in rows]
    inputs = [Input(canvases=(Canvas(tuple(c), copy=k),)) for c in canvases for k in range(copies)]
    if streamer is not None:
        return _streamed(model, inputs, plan, streamer)
    found = model.generator.generate(inputs, plan)
    return _tensor([list(max(some, key=lambda h: h.score).ids) for some in found], model.model.pad_id)


def _config(config: Any) -> dict[str, Any]:
    """What a GenerationConfig says that is not its default."""
    if config is None:
        return {}
    said = config if isinstance(config, Mapping) else config.to_diff_dict()
    return {name: value for name, value in said.items() if value is not None and name != "transformers_version"}


def _rows(model: LanguageModel, ids: Any, attention: Tensor | None) -> list[list[int]]:
    """The rows of ids without their padding."""
    if ids is None:
        raise PlanError("input_ids is missing: the tokens to write behind, or with masks to write in the place of")
    rows = [list(map(int, row)) for row in (ids.tolist() if isinstance(ids, Tensor) else ids)]
    if not rows or any(isinstance(row, int) for row in rows):
        raise PlanError("input_ids has two dimensions: (rows, tokens)")
    if attention is None:
        return rows
    keep = attention.bool().tolist()
    if [len(row) for row in keep] != [len(row) for row in rows]:
        raise PlanError("attention_mask has another shape than input_ids")
    return [[i for i, k in zip(row, some, strict=True) if k] for row, some in zip(rows, keep, strict=True)]


def _length(how: dict[str, Any], rows: Sequence[Sequence[int]]) -> int:
    given = {name: int(how.pop(name)) for name in ("max_new_tokens", "gen_length", "max_length") if name in how}
    if len(given) > 1:
        raise PlanError(f"{' and '.join(given)} say the same: give one of them")
    if "max_length" in given:
        sizes = {len(row) for row in rows}
        if len(sizes) > 1:
            raise PlanError("max_length with prompts of several lengths: say max_new_tokens")
        return max(0, given["max_length"] - sizes.pop())
    return next(iter(given.values()), 0)


def _plan(model: LanguageModel, how: dict[str, Any], length: int) -> Plan:
    """The plan of these names."""
    options: dict[str, Any] = {name: how.pop(name) for name in OURS if name in how}
    if "mask_id" in how or "mask_token_id" in how:
        said = int(how.pop("mask_id", None) or how.pop("mask_token_id", model.model.mask_id))
        if said != model.model.mask_id:
            raise PlanError(f"the mask of {model.name} is {model.model.mask_id}, not {said}")
    sampled = how.pop("do_sample", None)
    temperature = how.pop("temperature", None)
    if sampled is False and temperature:
        raise PlanError("do_sample=False takes the most probable symbols: leave temperature out")
    options["temperature"] = float(1.0 if temperature is None and sampled else temperature or 0.0)
    options |= {name: how.pop(name) for name in ("top_k", "top_p", "seed") if name in how}
    if not options["temperature"] and (cut := [n for n in ("top_k", "top_p") if n in options]):
        raise PlanError(f"{' and '.join(cut)} need a temperature above 0")
    if (beams := int(how.pop("num_beams", 1))) > 1:
        options["beam"] = beams
    steps, size, scale = how.pop("steps", None), how.pop("block_length", None), how.pop("cfg_scale", None)
    if scale:
        options["guidance"] = float(scale)
    if "alg" in how:
        alg = str(how.pop("alg"))
        options.setdefault("order", f"dream({int(steps or length)}, {alg})")
    elif size is not None or "remasking" in how or "threshold" in how:
        options.setdefault("order", _llada(how, length, steps, size))
    elif steps is not None:
        options["steps"] = int(steps)
    options.setdefault("order", "uniform" if options["temperature"] else "confidence")
    return Plan.of(**options)


def _llada(how: dict[str, Any], length: int, steps: Any, size: Any) -> str:
    size = int(size or length)
    if how.get("remasking") not in (None, "low_confidence", "random"):
        raise PlanError(f"remasking is 'low_confidence' or 'random'; got {how['remasking']!r}")
    if length % size:
        raise PlanError(f"gen_length {length} is no multiple of block_length {size}")
    blocks = length // size
    random = how.pop("remasking", None) == "random"
    if (threshold := how.pop("threshold", None)) is not None:
        if random or steps is not None:
            raise PlanError("a threshold decides how many positions a step writes: leave steps and remasking out")
        return f"fast-dllm({float(threshold)}, {size})"
    steps = int(steps or length)
    if steps % blocks:
        raise PlanError(f"steps {steps} is no multiple of the {blocks} blocks")
    if random:
        raise PlanError("remasking='random': take order='uniform' with count=… and among='block(…)'")
    return f"llada({steps // blocks}, {size})"


def _unused(how: dict[str, Any]) -> None:
    for name in [n for n in how if n != "num_return_sequences"]:
        if how[name] in NEUTRAL.get(name, ()):
            del how[name]
        else:
            raise PlanError(f"{name}={how[name]!r} could have no effect here: leave it out")


def _streamed(model: LanguageModel, inputs: list[Input], plan: Plan, streamer: Any) -> Tensor:
    """One row; the streamer is given what stands before its first mask, then each symbol once all before it are."""
    if len(inputs) > 1:
        raise PlanError("a streamer follows one row")
    if plan.searches:
        raise PlanError("a streamer follows one hypothesis: leave num_beams out")
    from anyorder.core import unroll

    generator = model.generator
    batch = generator.prepare(inputs, plan)
    tokens, done = batch.state.tokens[0], 0

    def put(done: int) -> int:
        blank = (tokens == model.model.mask_id).nonzero()
        ready = int(blank[0]) if len(blank) else len(tokens)
        if ready > done:
            streamer.put(tokens[done:ready].cpu())
        return max(done, ready)

    done = put(done)
    for taken in unroll(model.model, batch.context, batch.state, generator.decoder(plan)):
        tokens = taken.state.tokens[0]
        done = put(done)
    streamer.end()
    return tokens[None].cpu()


def _tensor(rows: list[list[int]], pad: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])
