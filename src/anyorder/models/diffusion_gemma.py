"""DiffusionGemma behind the core's protocol: random words where nothing is written, and an echo of the pass before.

Its canvas has no mask: a position without a symbol holds a random word, another one at each step. Here it is masked,
and the word is painted when the model looks, from the row's own randomness and its step. Each pass is told what the
one before it said (self-conditioning): softmax(logits)·E·√D, D numbers a position, remembered with the row.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from anyorder.core.noise import PAINT, uniform
from anyorder.core.state import ECHO, State
from anyorder.errors import ModelError, first_line
from anyorder.models.abilities import Abilities
from anyorder.models.diffusion_lm import DiffusionLM, load_diffusion_lm
from anyorder.models.hub import quiet
from anyorder.models.placing import CPU, Placing
from anyorder.models.published import Family, Mapped, config_of, ends_of
from anyorder.models.vocabulary import fitted, load_tokenizer

CLASS = "DiffusionGemmaForBlockDiffusion"


@dataclass
class Prompts:
    """The causal encoder's keys and values of some prompts of one length, kept while they are asked for."""

    ids: list[tuple[int, ...]] = field(default_factory=list)
    cache: Any = None

    def of(self, model: Any, prompts: Tensor) -> Any:
        """The cache of prompts (N, P), encoded if one of them is new."""
        rows = [tuple(row) for row in prompts.tolist()]
        known = {ids: k for k, ids in enumerate(self.ids)}
        if not all(ids in known for ids in rows):
            self.ids = list(dict.fromkeys(rows))
            self.cache = _encoded(model, torch.tensor(self.ids, device=prompts.device))
            known = {ids: k for k, ids in enumerate(self.ids)}
        if rows != self.ids:
            self.cache = copy.deepcopy(self.cache)
            self.cache.batch_select_indices(torch.tensor([known[ids] for ids in rows], device=prompts.device))
            self.ids = rows
        return self.cache


@dataclass(frozen=True)
class GemmaContext:
    """What was encoded of the prompts, and the state that a pass is made for: its seeds, steps, and echo."""

    prompts: dict[int, Prompts] = field(default_factory=dict)  # by their length
    state: State | None = None

    def at(self, state: State) -> GemmaContext:
        """For a pass over this state."""
        return replace(self, state=state)

    def take(self, rows: Tensor) -> GemmaContext:
        """These rows."""
        return replace(self, state=None if self.state is None else self.state.take(rows))

    def join(self, *others: GemmaContext) -> GemmaContext:
        """These rows, then the others': each pass is told of their states anew."""
        return GemmaContext(self.prompts)


class DiffusionGemma(Abilities, nn.Module):
    """p(y_i | Y^{≤t}): all that is given before a row's first open position is the prompt, the rest is the canvas."""

    def __init__(
        self, model: Any, tokenizer: Any = None, family: Family | None = None, ends: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        text = model.config.get_text_config()
        self.model, self.tokenizer, self.family, self.ends = model.eval(), tokenizer, family, ends
        self.words = int(text.vocab_size)
        self.mask_id, self.pad_id = self.words, self.words + 1  # neither is a symbol of the model
        self.special_ids: tuple[int, ...] = ()
        self.canvas = int(model.config.canvas_length)
        self.max_length = text.max_position_embeddings
        self.cap = text.final_logit_softcapping
        self._check()

    def encode(self, source: Any = None) -> GemmaContext:
        """A prompt is part of the canvas, before its first mask."""
        if source is not None:
            raise ModelError("a diffusion LM has no source side: write the prompt on the canvas instead")
        return GemmaContext()

    def hidden(self, context: GemmaContext, tokens: Tensor) -> Tensor:
        """(N, L) → (N, L, D): the decoder's states of each canvas, 0 in prompts."""
        state = context.state
        if state is None:
            raise ModelError("passes of DiffusionGemma depend on seeds and steps: let the engine tell its context")
        n, length = tokens.shape
        start, end = state.open.long().argmax(-1), (tokens != self.pad_id).sum(-1)  # (N,)
        if not bool(start.all()):
            raise ModelError("DiffusionGemma reads a prompt before it writes: begin with a symbol, such as <bos>")
        column = torch.arange(length, device=tokens.device)
        u = uniform(state.seed[:, None], state.step[:, None], column, PAINT)
        painted = torch.where(tokens == self.mask_id, (u * self.words).long().clamp_max(self.words - 1), tokens)
        signal = self._signal(state, tokens)
        out = signal.new_zeros(n, length, signal.shape[-1])
        shapes = torch.stack([start, end], -1)
        for a, b in dict.fromkeys(map(tuple, shapes.tolist())):  # a pass for each, so that no padding is seen
            rows = ((start == a) & (end == b)).nonzero()[:, 0]
            cache = context.prompts.setdefault(a, Prompts()).of(self.model, tokens[rows, :a])
            out[rows, a:b] = self._denoised(painted[rows, a:b], signal[rows, a:b], cache, a)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """(M, D) → (M, V), through the soft cap."""
        x: Tensor = self.model.lm_head(hidden).float()
        return torch.tanh(x / self.cap) * self.cap if self.cap else x

    def echo(self, p: Tensor) -> Tensor:
        """What the next pass is told of p (M, V): the mean embedding, (M, D)."""
        embed = self.model.model.decoder.embed_tokens
        out: Tensor = (p.to(embed.weight.dtype) @ embed.weight) * embed.embed_scale.to(embed.weight.dtype)
        return out

    def _signal(self, state: State, tokens: Tensor) -> Tensor:
        """(N, L, D): the echo of the pass before; absent in a row's first step. Of a position that was not looked at,
        the embedding of the symbol that stands there."""
        embed = self.model.model.decoder.embed_tokens
        own = embed(tokens.clamp_max(self.words - 1)).masked_fill((tokens == self.mask_id)[..., None], 0)
        known = state.recall(ECHO, 0.0)
        if known.dim() == 0:
            return torch.zeros_like(own)
        return torch.where(known.isnan(), own, known.to(own.dtype))

    def _denoised(self, canvas: Tensor, signal: Tensor, cache: Any, start: int) -> Tensor:
        """The decoder as transformers runs it, told of the pass before by its mean embeddings, not by its logits."""
        decoder = self.model.model.decoder
        text = decoder.text_config
        states = decoder.self_conditioning(decoder.embed_tokens(canvas), signal)
        places = torch.arange(start, start + canvas.shape[1], device=canvas.device)[None]
        turned = {kind: decoder.rotary_emb(states, places, kind) for kind in decoder.unique_layer_types}
        for k, layer in enumerate(decoder.layers[: text.num_hidden_layers]):
            states = layer(
                states,
                position_embeddings=turned[text.layer_types[k]],
                attention_mask=None,  # everything sees everything: no row here is padded
                position_ids=places,
                past_key_values=cache,
            )
        out: Tensor = decoder.norm(states)
        return out

    @torch.no_grad()
    def _check(self) -> None:
        """The parts must give what the whole gives."""
        from anyorder.core.state import begin

        device = self.model.lm_head.weight.device
        tokens = torch.tensor([[1, 2, self.mask_id, self.mask_id]], device=device)
        state = begin(tokens, self.mask_id, self.pad_id)
        context = self.encode(None).at(state)
        u = uniform(state.seed[:, None], state.step[:, None], torch.arange(4, device=device), PAINT)
        canvas = (u * self.words).long()[:, 2:]
        cache = _encoded(self.model, tokens[:, :2])
        whole = self.model(
            decoder_input_ids=canvas,
            past_key_values=cache,
            decoder_position_ids=torch.arange(2, 4, device=device)[None],
        ).logits
        tolerance = 1e-4 if self.model.dtype == torch.float32 else 1e-1
        parts = self.logits(self.hidden(context, tokens)[0, 2:])
        if not bool(whole.isfinite().all()):
            raise ModelError("DiffusionGemma gives NaN or infinite logits: its weights are damaged")
        if not torch.allclose(parts, whole[0], atol=tolerance, rtol=tolerance):
            raise ModelError("this version of transformers computes DiffusionGemma in another way than is known here")


def _encoded(model: Any, prompts: Tensor) -> Any:
    """Keys and values of prompts (N, P) of one length, by the causal encoder."""
    from transformers import DynamicCache

    encoder = model.model.encoder
    cache = DynamicCache(config=model.config.get_text_config(decoder=True))
    places = torch.arange(prompts.shape[1], device=prompts.device)[None]
    masks = encoder.create_masks_for_generate(
        config=model.config,
        inputs_embeds=torch.empty(*prompts.shape, 0, dtype=model.dtype, device=prompts.device),
        attention_mask=torch.ones_like(prompts, dtype=torch.bool),
        past_key_values=cache,
        position_ids=places,
    )
    return encoder(input_ids=prompts, attention_mask=masks, past_key_values=cache, position_ids=places).past_key_values


def load_diffusion(where: str | Path, *, placing: Placing = CPU, **more: Any) -> DiffusionGemma | DiffusionLM:
    """A diffusion LM of any kind, with its tokenizer, from a folder or hub name; `more` is for `load_diffusion_lm`."""
    named = config_of(where, **placing.hub).get("architectures")
    if not isinstance(named, list) or CLASS not in named:
        return load_diffusion_lm(where, placing=placing, **more)
    if more:
        raise ModelError(f"{', '.join(more)}: not for DiffusionGemma, whose folder says everything")
    return load_diffusion_gemma(str(where), placing)


def load_diffusion_gemma(where: str, placing: Placing = CPU) -> DiffusionGemma:
    """The model of a folder or hub name, with its tokenizer and its authors' settings."""
    import transformers

    try:
        with quiet():
            model, found = getattr(transformers, CLASS).from_pretrained(
                where, output_loading_info=True, **placing.weights
            )
    except Exception as error:  # missing, damaged …: as many types as causes
        raise ModelError(f"cannot load DiffusionGemma from {where}: {first_line(error)}") from error
    if found["missing_keys"]:
        raise ModelError(f"the weights in {where} lack {min(found['missing_keys'])} and perhaps more")
    model = placing.moved(model)
    text = model.config.get_text_config()
    tokenizer = fitted(load_tokenizer(where, **placing.hub), text.vocab_size, where)
    family = replace(_FAMILY, length=model.config.canvas_length, writes=_writes(model.generation_config))
    ends = {i for named in (text, model.generation_config) for i in ends_of(vars(named), family, tokenizer)}
    return DiffusionGemma(model.requires_grad_(False), tokenizer, family, tuple(sorted(ends)))


def _writes(settings: Any) -> Any:
    """Its authors' settings, from generation_config.json where they stand there."""

    def own(name: str, default: Any) -> Any:
        value = getattr(settings, name, None)
        return default if value is None else value

    bound = getattr(own("sampler_config", None), "entropy_bound", 0.1)

    def writes(length: int, steps: int | None) -> dict[str, Any]:
        T = steps or own("max_denoising_steps", 48)
        hot, cold = own("t_max", 0.8), own("t_min", 0.4)
        stable, confident = own("stability_threshold", 1), own("confidence_threshold", 0.005)
        return {"order": f"diffusion-gemma({T}, {bound}, {hot}, {cold}, {stable}, {confident})", "temperature": 0.0}

    return writes


def _read(fields: Any) -> Mapped:
    raise ModelError("DiffusionGemma is a class of transformers' own")


_FAMILY = Family("DiffusionGemma", CLASS, _read, ends=("<turn|>", "<end_of_turn>"))
