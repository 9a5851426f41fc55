"""Masked diffusion language models (LLaDA, Dream and their kin) and classifier-free guidance, behind the protocol."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.core.model import Context, Model, NoContext
from anyorder.core.ragged import joined
from anyorder.errors import ModelError, first_line
from anyorder.models.abilities import Abilities
from anyorder.models.hub import check_type, quiet
from anyorder.models.placing import CPU, Placing
from anyorder.models.published import Family, Mapped, config_of, ends_of, family_of, load_weights, tokenizer_of
from anyorder.models.vocabulary import fitted, load_tokenizer


class DiffusionLM(Abilities, nn.Module):
    """A bidirectional LM in two halves: everything before its output matrix, and that matrix at asked rows.

    `shifted`: the model keeps the habit of the left-to-right model it grew from, the logits at i-1 being for
    position i (Dream); otherwise those at i are (LLaDA). `pairs`: it takes its attention mask as (N, 1, L, L) rather
    than (N, L). `block`: its attention is block-causal (block diffusion): a position sees its own block of that many
    columns, counted from column 0, and the blocks before it; such a mask is given to the model in every pass.
    `pad_id` may lie behind the vocabulary: then every symbol that the model knows can be text. `ends` are the symbols
    that end a text; `family` says how its authors write with it.
    """

    def __init__(
        self,
        model: nn.Module,
        mask_id: int,
        pad_id: int,
        *,
        shifted: bool = False,
        pairs: bool = False,
        block: int | None = None,
        special_ids: tuple[int, ...] = (),
        tokenizer: Any = None,
        ends: tuple[int, ...] = (),
        family: Family | None = None,
    ) -> None:
        super().__init__()
        if block is not None and block < 2:
            raise ValueError(f"block-causal attention needs blocks of at least 2 columns, got {block}")
        self.block = block
        self.mask_id, self.pad_id, self.shifted, self.pairs = mask_id, pad_id, shifted, pairs
        self.tokenizer, self.ends, self.family = tokenizer, ends, family
        config = getattr(model, "config", None)
        self.max_length = next(
            (n for name in ("max_position_embeddings", "max_sequence_length") if (n := getattr(config, name, None))),
            None,
        )
        self.body, self.head = _split(model.eval())
        never = {mask_id, *special_ids, *([pad_id] if pad_id < self.head.weight.shape[0] else [])}
        self.special_ids = tuple(sorted(never))
        if block is not None:
            self.check_window()
        self._check(model)

    def encode(self, source: Any = None) -> NoContext:
        """A prompt is part of the canvas."""
        if source is not None:
            raise ModelError("a diffusion LM has no source side: write the prompt on the canvas instead")
        return NoContext()

    def hidden(self, context: Any, tokens: Tensor) -> Tensor:
        """What the output matrix reads for each position: (N, L) → (N, L, D)."""
        self.check_length(tokens)
        states = self._run(self.body, tokens)
        return torch.cat([states[:, :1], states[:, :-1]], 1) if self.shifted else states

    def logits(self, hidden: Tensor) -> Tensor:
        """(M, D) → (M, V)."""
        output: Tensor = self.head(hidden)
        return output

    def known(self, tokens: Tensor) -> Tensor:
        """Canvases in symbols that the model has an embedding of: nothing attends to padding, whatever stands there."""
        return tokens.masked_fill(tokens == self.pad_id, 0)

    def check_length(self, tokens: Tensor) -> None:
        """The canvas (N, L) must not be longer than what the model was made for."""
        if self.max_length is not None and tokens.shape[1] > self.max_length:
            raise ModelError(
                f"the canvas has {tokens.shape[1]} tokens but this model was made for at most {self.max_length}: "
                "shorten the prompt or generate less"
            )

    def check_window(self) -> None:
        """A mask of ours takes the place of a sliding window, so there must be none."""
        window = getattr(getattr(self.body, "config", None), "sliding_window", None)
        if window:
            raise ModelError(f"{type(self.body).__name__} has a sliding window of {window}, which a given mask undoes")

    def attention(self, real: Tensor, columns: Tensor) -> Tensor:
        """The mask (N, 1, W, K) of queries at `columns` (N, W) over keys of which `real` (N, K) may be seen.

        A query always sees itself, so that no row of the attention is empty. Bool for a model that takes pairs,
        otherwise what is added to the scores: transformers' attention takes a finished mask in that form everywhere.
        """
        keys, queries = torch.arange(real.shape[1], device=real.device), columns[:, :, None]
        seen = real[:, None].expand(-1, columns.shape[1], -1)
        if self.block is not None:
            seen = seen & (keys // self.block <= queries // self.block)
        seen = (seen | (keys == queries))[:, None]
        dtype = self.head.weight.dtype
        return seen if self.pairs else torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)

    def _run(self, model: nn.Module, tokens: Tensor) -> Tensor:
        real = tokens != self.pad_id  # (N, L): the keys that may be seen
        mask = real.long()
        if self.pairs or self.block is not None:
            mask = self.attention(real, torch.arange(real.shape[1], device=real.device).expand_as(real))
        output: Tensor = model(input_ids=self.known(tokens), attention_mask=mask).logits
        return output

    @torch.no_grad()
    def _check(self, model: nn.Module) -> None:
        """The halves must equal the whole, and position 0 must see the symbol after it."""
        device = self.head.weight.device
        other = next(i for i in range(3) if i not in (self.mask_id, self.pad_id))
        tokens = torch.tensor([[self.mask_id, other, self.mask_id], [self.mask_id] * 3], device=device)
        whole = self._run(model, tokens)  # (2, 3, V)
        if not bool(whole.isfinite().all()):
            raise ModelError(f"{type(model).__name__} gives NaN or infinite logits: its weights are damaged")
        tolerance = 1e-4 if whole.dtype == torch.float32 else 1e-1
        if not torch.allclose(self.logits(self._run(self.body, tokens)), whole, atol=tolerance, rtol=tolerance):
            raise ModelError(
                f"{type(model).__name__} does something to its logits after the output matrix, so the matrix alone at "
                "a few rows would not give its probabilities"
            )
        if torch.equal(whole[0, 0], whole[1, 0]):
            raise ModelError(
                f"{type(model).__name__} looks to the left only: it is not a diffusion LM. A Llama- or Qwen-like one "
                "needs `is_causal: false` in its config, or `block=` if it is block-causal"
            )


def load_diffusion_lm(
    path_or_name: str | Path,
    *,
    shifted: bool | None = None,
    mask_id: int | None = None,
    block: int | None = None,
    placing: Placing = CPU,
) -> DiffusionLM:
    """A diffusion LM and its tokenizer from a local folder or a hub name. No code from there is ever run.

    The families of `published.py` (LLaDA, Dream …) are known by their config.json. Another model that keeps its code
    beside its weights you load yourself, where you trust it, and give to `wrap_diffusion_lm`.
    """
    from transformers import AutoModelForCausalLM

    where = str(path_or_name)
    check_type(Path(where))
    config = config_of(where, **placing.hub)
    if (family := family_of(config)) is not None:
        model, mapped = load_weights(where, family, config, **placing.weights)
        model = placing.moved(model)
        tokenizer = fitted(tokenizer_of(where, family.name, **placing.hub), model.config.vocab_size, where)
        return _of_family(model, family, mapped, config, tokenizer, shifted=shifted, mask_id=mask_id, block=block)
    try:
        with quiet():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                where, output_loading_info=True, trust_remote_code=False, **placing.weights
            )
    except Exception as error:  # missing, damaged, code of its own …: as many types as causes
        raise ModelError(
            f"cannot load a diffusion LM from {where}: {first_line(error)} (if it needs code of its own, load it "
            "yourself and use anyorder.models.diffusion_lm.wrap_diffusion_lm)"
        ) from error
    model, found = loaded
    if found["missing_keys"]:
        raise ModelError(f"the weights in {where} lack {min(found['missing_keys'])} and perhaps more")
    model = placing.moved(model)
    tokenizer = fitted(load_tokenizer(where, **placing.hub), model.get_output_embeddings().weight.shape[0], where)
    return wrap_diffusion_lm(model, tokenizer, shifted=shifted, mask_id=mask_id, block=block)


def wrap_diffusion_lm(
    model: Any,
    tokenizer: Any,
    *,
    shifted: bool | None = None,
    mask_id: int | None = None,
    block: int | None = None,
) -> DiffusionLM:
    """A diffusion LM that is loaded already, with its tokenizer."""
    config = model.config
    candidates = (mask_id, getattr(config, "mask_token_id", None), tokenizer.mask_token_id)
    mask = next((i for i in candidates if i is not None), None)
    if mask is None:
        raise ModelError("neither the model's config nor its tokenizer names a mask symbol: give mask_id")
    pad = next((i for i in (tokenizer.pad_token_id, config.pad_token_id) if i is not None), None)
    if pad is None:
        raise ModelError("neither the tokenizer nor the model's config names a padding symbol")
    size = model.get_output_embeddings().weight.shape[0]  # often rounded up beyond the tokenizer's words
    special = {*tokenizer.all_special_ids, *range(len(tokenizer), size)} - {tokenizer.eos_token_id}
    dream = "dream" in str(config.model_type).lower()
    return DiffusionLM(
        model.requires_grad_(False),
        mask,
        pad,
        shifted=dream if shifted is None else shifted,
        pairs=dream,
        block=block,
        special_ids=tuple(i for i in special if i < size),
        tokenizer=tokenizer,
        ends=() if tokenizer.eos_token_id is None else (tokenizer.eos_token_id,),
    )


def _of_family(
    model: Any,
    family: Family,
    mapped: Mapped,
    config: Mapping[str, Any],
    tokenizer: Any,
    *,
    shifted: bool | None,
    mask_id: int | None,
    block: int | None,
) -> DiffusionLM:
    """A model of a published family: everything but the mask can be written, as its authors' code has it."""
    mask, size = mapped.mask_id if mask_id is None else mask_id, int(model.config.vocab_size)
    if not 0 <= mask < size:
        raise ModelError(
            f"the mask symbol {mask} is none of the {size} symbols that the model knows: check mask_token_id"
        )
    if tokenizer.mask_token is None:
        tokenizer.mask_token = tokenizer.convert_ids_to_tokens(mask)
    return DiffusionLM(
        model.requires_grad_(False),
        mask,
        size,
        shifted=family.shifted if shifted is None else shifted,
        block=mapped.block if block is None else block,
        tokenizer=tokenizer,
        ends=ends_of(config, family, tokenizer),
        family=family,
    )


@dataclass(frozen=True)
class GuidedContext:
    """The inner model's context, and which positions of each row are the prompt."""

    inner: Context
    prompt: Tensor  # (N, L) bool, or (1, L) the same for all rows

    def given(self, prompt: Tensor) -> GuidedContext:
        """With what is given on each canvas (N, L) as the prompt."""
        return GuidedContext(self.inner, prompt)

    def take(self, rows: Tensor) -> GuidedContext:
        """These rows."""
        prompt = self.prompt if self.prompt.shape[0] == 1 else self.prompt[rows]
        return GuidedContext(self.inner.take(rows), prompt)

    def join(self, *others: GuidedContext) -> GuidedContext:
        """These rows, then the others'."""
        prompts, inner = [c.prompt for c in (self, *others)], self.inner.join(*(c.inner for c in others))
        if all(torch.equal(p, self.prompt) for p in prompts) and len(self.prompt) == 1:
            return GuidedContext(inner, self.prompt)  # the same for all rows
        if any(len(p) == 1 for p in prompts):
            raise ModelError("rows with different prompts share a batch only if each has its prompt mask: give (N, L)")
        return GuidedContext(inner, joined(prompts))


class Guided(Abilities, nn.Module):
    """Classifier-free guidance: log p ∝ log p(y|∅) + (1 + scale) · (log p(y|prompt) − log p(y|∅)).

    Without its prompt is with the prompt masked, as LLaDA does it. Each forward pass runs both, as one batch.
    """

    def __init__(self, model: Model, scale: float, prompt: Tensor | None = None) -> None:
        """`prompt` (L,) or (N, L) bool: which positions are the prompt, for all rows or for each; without it, contexts
        are told (`given`)."""
        super().__init__()
        prompt = torch.zeros(1, 1, dtype=torch.bool) if prompt is None else prompt
        self.model, self.scale, self.prompt = model, scale, prompt.reshape(-1, prompt.shape[-1])
        self.mask_id, self.pad_id = model.mask_id, model.pad_id
        self.special_ids = getattr(model, "special_ids", (model.mask_id, model.pad_id))

    def encode(self, source: Any = None) -> GuidedContext:
        """What is known of the sources, computed once for all steps."""
        return GuidedContext(self.model.encode(source), self.prompt)

    def hidden(self, context: GuidedContext, tokens: Tensor) -> Tensor:
        """(N, L) → (N, L, 2D): the states with the prompt, then those without."""
        n, length = tokens.shape
        prompt = context.prompt[:, :length].to(tokens.device)
        prompt = F.pad(prompt, (0, length - prompt.shape[1]))  # a canvas may be padded further
        if prompt.shape[0] not in (1, n):
            raise ModelError(f"the prompt mask has {prompt.shape[0]} rows, the canvas {n}")
        bare = torch.where(prompt & (tokens != self.pad_id), self.mask_id, tokens)
        rows = torch.arange(n, device=tokens.device).repeat(2)
        states = self.model.hidden(context.inner.take(rows), torch.cat([tokens, bare]))
        return torch.cat([states[:n], states[n:]], -1)

    def logits(self, hidden: Tensor) -> Tensor:
        """Guided logits (M, V) of the states of both halves, side by side (M, 2D)."""
        given, free = self.model.logits(torch.cat(hidden.chunk(2, -1))).chunk(2)  # (M, V) each
        impossible = given.isneginf() | free.isneginf()
        return torch.where(impossible, given, free + (1 + self.scale) * (given - free))


def _split(model: nn.Module) -> tuple[nn.Module, nn.Linear]:
    """The model with its output matrix taken out (all weights shared, `model` itself untouched), and the matrix."""
    find = getattr(model, "get_output_embeddings", lambda: None)
    head = find()
    path = next((name for name, module in model.named_modules() if module is head), None)
    if not isinstance(head, nn.Linear) or not path:
        raise ModelError(f"{type(model).__name__} has no output matrix of its own to split off")
    body = node = copy.copy(model)
    *parents, last = path.split(".")
    for name in parents:
        child = copy.copy(node._modules[name])
        node._modules = {**node._modules, name: child}
        assert child is not None
        node = child
    node._modules = {**node._modules, last: nn.Identity()}
    return body, head
