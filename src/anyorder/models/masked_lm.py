"""Any Hugging Face masked language model (BERT, RoBERTa, ModernBERT, ESM …) behind the core's protocol."""

from __future__ import annotations

import copy
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor, nn

from anyorder.core.devices import device_of
from anyorder.core.model import NoContext
from anyorder.errors import ModelError, first_line
from anyorder.models.abilities import Abilities
from anyorder.models.hub import check_type, quiet
from anyorder.models.placing import CPU, Placing
from anyorder.models.vocabulary import fitted, load_tokenizer


class MaskedLM(Abilities, nn.Module):
    """A `…ForMaskedLM` in two halves: its encoder, and its own vocabulary head at the rows asked for.

    The canvas is the whole text, special tokens included; `special_ids` should never be generated.
    """

    def __init__(
        self,
        model: nn.Module,
        mask_id: int,
        pad_id: int,
        special_ids: tuple[int, ...] = (),
        tokenizer: Any = None,
    ) -> None:
        super().__init__()
        self.model, self.mask_id, self.pad_id, self.tokenizer = model.eval(), mask_id, pad_id, tokenizer
        self.special_ids = tuple(sorted({mask_id, pad_id, *special_ids}))
        self.max_length = _max_length(model, pad_id)
        _encoder_name(model)
        self.padding_leaks = self._probe()

    def encode(self, source: Any = None) -> NoContext:
        """A masked LM has no input beside its canvas."""
        if source is not None:
            raise ModelError("a masked LM has no source side: write the given words on the canvas instead")
        return NoContext()

    def hidden(self, context: Any, tokens: Tensor) -> Tensor:
        """The encoder's last hidden state: (N, L) → (N, L, D); padding is never attended to."""
        if self.max_length is not None and tokens.shape[1] > self.max_length:
            raise ModelError(
                f"the canvas has {tokens.shape[1]} tokens but this {type(self.model).__name__} was made for at most "
                f"{self.max_length}: shorten or split the text"
            )
        if not self.padding_leaks:
            return self._encoded(tokens)
        lengths = (tokens != self.pad_id).sum(-1)  # (N,); one forward pass for each length, without its padding
        parts = [(lengths == n, self._encoded(tokens[lengths == n, :n])) for n in set(lengths.tolist())]
        out = parts[0][1].new_zeros(*tokens.shape, parts[0][1].shape[-1])
        for rows, part in parts:
            out[rows, : part.shape[1]] = part
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Everything the architecture does after its encoder: (M, D) → (M, V)."""
        output: Tensor = _head_only(self.model)(inputs_embeds=hidden[None]).logits
        return output[0]

    def _encoded(self, tokens: Tensor) -> Tensor:
        encoder = getattr(self.model, _encoder_name(self.model))
        output: Tensor = encoder(input_ids=tokens, attention_mask=(tokens != self.pad_id).long()).last_hidden_state
        return output

    @torch.no_grad()
    def _probe(self) -> bool:
        """Two small canvases: do the halves equal the whole, and does padding leak (MobileBERT, FNet …)?"""
        name, device = type(self.model).__name__, device_of(self.model)
        other = next(i for i in range(3) if i not in (self.mask_id, self.pad_id))
        tokens = torch.tensor([[other, self.mask_id]], device=device)
        try:
            whole = self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits[0]  # (2, V)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:  # as Funnel does on any short canvas
            raise ModelError(
                f"{name} fails on a canvas of two symbols ({first_line(error)}): this family cannot be used here"
            ) from error
        if not bool(whole.isfinite().all()):
            raise ModelError(f"{name} gives NaN or infinite logits: its weights are damaged")
        tolerance = 1e-4 if whole.dtype == torch.float32 else 1e-1
        halves = self.logits(self._encoded(tokens)[0])
        if whole.shape != halves.shape or not torch.allclose(whole, halves, atol=tolerance, rtol=tolerance):
            raise ModelError(
                f"{name} does not split into an encoder and a head that reads its last hidden state alone, so it "
                "cannot be used as a masked LM here"
            )
        padded = self._encoded(nn.functional.pad(tokens, (0, 2), value=self.pad_id))[0, :2]
        return not torch.allclose(self.logits(padded), whole, atol=tolerance, rtol=tolerance)


def load_masked_lm(path_or_name: str | Path, placing: Placing = CPU) -> MaskedLM:
    """A masked LM and its tokenizer from a local folder or a hub name; no code from the folder is ever run."""
    model = placing.moved(_load_weights(str(path_or_name), placing))
    tokenizer = load_tokenizer(str(path_or_name), **placing.hub)
    size = model.get_output_embeddings().weight.shape[0]  # often rounded up beyond the tokenizer's words
    fitted(tokenizer, size, str(path_or_name))
    missing = [name for name in ("mask_token_id", "pad_token_id") if getattr(tokenizer, name) is None]
    if missing:
        raise ModelError(f"the tokenizer of {path_or_name} has no {' and no '.join(missing)}: is it a masked LM's?")
    added = [i for i, token in tokenizer.added_tokens_decoder.items() if token.special]
    special = tuple(i for i in {*tokenizer.all_special_ids, *added, *range(len(tokenizer), size)} if i < size)
    model.requires_grad_(False)
    return MaskedLM(model, tokenizer.mask_token_id, tokenizer.pad_token_id, special, tokenizer)


def _load_weights(where: str, placing: Placing) -> Any:
    from transformers import AutoModelForMaskedLM

    check_type(Path(where))
    try:
        with quiet():
            model, found = AutoModelForMaskedLM.from_pretrained(
                where, output_loading_info=True, trust_remote_code=False, **placing.weights
            )
    except UnpicklingError as error:
        raise ModelError(
            f"cannot load a masked LM from {where}: its weights are a damaged pickle, or one with more than tensors in "
            "it, which is never run; convert it to safetensors where you trust it"
        ) from error
    except Exception as error:  # missing, damaged, of an unknown architecture …: as many types as causes
        raise ModelError(f"cannot load a masked LM from {where}: {first_line(error)}") from error
    if found["missing_keys"]:
        names = sorted(found["missing_keys"])
        raise ModelError(
            f"the weights in {where} lack {len(names)} of {type(model).__name__}'s parameters, {names[0]} first: "
            "it was saved without its masked LM head, or for another architecture"
        )
    for name, parameter in model.named_parameters():
        if parameter.device.type != "meta" and not bool(parameter.isfinite().all()):
            raise ModelError(f"the weights in {where} are damaged: {name} has NaN or infinite values")
    return model


def _encoder_name(model: nn.Module) -> str:
    """Which attribute of a `…ForMaskedLM` is its encoder."""
    name = getattr(model, "base_model_prefix", "")
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "is_decoder", False):
        raise ModelError(f"{type(model).__name__} writes left to right with a decoder: it is not a masked LM")
    if not name or not isinstance(getattr(model, name, None), nn.Module):
        raise ModelError(f"{type(model).__name__} has no encoder to split off (base_model_prefix is {name!r})")
    return name


class _Given(tuple[Tensor]):
    """An encoder's output of which only the last hidden state is there."""

    @property
    def last_hidden_state(self) -> Tensor:
        return self[0]

    def __getattr__(self, name: str) -> None:
        return None


def _head_only(model: nn.Module) -> Any:
    """The model without its encoder: a copy that shares all weights, whose encoder returns what it is given.

    Made anew each time (microseconds), so it can never go stale when the model moves, is copied or is trained.
    """

    def given(*args: Any, **kwargs: Any) -> _Given:
        return _Given([next(v for v in (*args, *kwargs.values()) if isinstance(v, Tensor))])

    name = _encoder_name(model)
    head, encoder = copy.copy(model), copy.copy(getattr(model, name))
    head._modules = {**model._modules, name: encoder}
    encoder.forward = given
    return head


def _max_length(model: nn.Module, pad_id: int) -> int | None:
    """The longest canvas: rows of the position table, less those that RoBERTa-like models keep below pad_id + 1."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            if module.padding_idx is None:
                return module.num_embeddings
            if module.padding_idx != pad_id:
                raise ModelError(
                    f"{type(model).__name__} counts positions from its padding symbol {module.padding_idx}, but "
                    f"the tokenizer pads with {pad_id}: give the model its own tokenizer"
                )
            return module.num_embeddings - pad_id - 1
    limit = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None
