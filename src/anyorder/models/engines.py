"""What a user would run instead: our autoregressive baseline under Hugging Face `generate` and under CTranslate2."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from anyorder.errors import extra


def to_hugging_face(model: Any, direction: tuple[int, int]) -> Any:
    """Our autoregressive model as a BART (post-norm) or an mBART (pre-norm): the same function of its inputs.

    BART has no language embedding, so each side's is added to its positions; one direction a model.
    """
    from transformers import BartConfig, BartForConditionalGeneration, MBartConfig, MBartForConditionalGeneration

    a, special = model.architecture, model.special
    sizes = dict(
        vocab_size=a.vocabulary, d_model=a.dim, encoder_layers=a.layers, decoder_layers=a.decoder.layers,
        encoder_attention_heads=a.heads, decoder_attention_heads=a.heads, encoder_ffn_dim=a.ffn, decoder_ffn_dim=a.ffn,
        max_position_embeddings=a.positions, dropout=0.0, scale_embedding=False, bos_token_id=special.bos,
        eos_token_id=special.eos, pad_token_id=special.pad, decoder_start_token_id=special.eos,
        activation_function="gelu" if a.gelu == "erf" else "gelu_pytorch_tanh", forced_eos_token_id=None,
    )  # fmt: skip
    post = a.norm == "post"
    hf: Any = (
        BartForConditionalGeneration(BartConfig(**sizes))
        if post
        else MBartForConditionalGeneration(MBartConfig(**sizes))
    )
    with torch.no_grad():
        hf.model.shared.weight.copy_(model.decoder.embeddings.weight)
        hf.final_logits_bias.copy_(model.decoder.proj_bias[None])
        for half, ours, language in zip(
            (hf.model.encoder, hf.model.decoder), (model.encoder, model.decoder), direction, strict=True
        ):
            half.embed_positions.weight[2:].copy_(
                ours.position_embeddings.weight + ours.lang_embeddings.weight[language]
            )
            _copy(half.layernorm_embedding, ours.layer_norm_emb)
            if not post:
                _copy(half.layer_norm, ours.final_norm)
            for i, layer in enumerate(half.layers):
                _copy_attention(layer.self_attn, ours.attentions[i].qkv_lin, ours.attentions[i].out_lin)
                _copy(layer.self_attn_layer_norm, ours.layer_norm1[i])
                if half is hf.model.decoder:
                    cross = ours.encoder_attn[i]
                    _copy(layer.encoder_attn.q_proj, cross.q_lin)
                    _split(cross.kv_lin, layer.encoder_attn.k_proj, layer.encoder_attn.v_proj)
                    _copy(layer.encoder_attn.out_proj, cross.out_lin)
                    _copy(layer.encoder_attn_layer_norm, ours.layer_norm15[i])
                _copy(layer.fc1, ours.ffns[i].lin1)
                _copy(layer.fc2, ours.ffns[i].lin2)
                _copy(layer.final_layer_norm, ours.layer_norm2[i])
    for module in hf.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = a.layer_norm_eps
    return hf.eval().requires_grad_(False)


def _copy(to: Any, source: Any) -> None:
    to.weight.copy_(source.weight)
    to.bias.copy_(source.bias)


def _split(source: Any, *to: Any) -> None:
    """A fused projection into its parts."""
    for part, weight, bias in zip(to, source.weight.chunk(len(to)), source.bias.chunk(len(to)), strict=True):
        part.weight.copy_(weight)
        part.bias.copy_(bias)


def _copy_attention(to: Any, fused: Any, out: Any) -> None:
    _split(fused, to.q_proj, to.k_proj, to.v_proj)
    _copy(to.out_proj, out)


def delimited_rows(sources: Sequence[Sequence[int]], model: Any) -> tuple[Tensor, Tensor]:
    """`</s> source </s>` rows (N, S+2) padded, and their attention mask."""
    eos, pad = model.special.eos, model.special.pad
    width = max(len(s) for s in sources) + 2
    rows = torch.tensor([[eos, *s, eos] + [pad] * (width - 2 - len(s)) for s in sources])
    return rows, (rows != pad).long()


def generate(hf: Any, model: Any, sources: Sequence[Sequence[int]], beam: int = 1) -> list[list[int]]:
    """Hugging Face `generate` on a batch."""
    rows, mask = delimited_rows(sources, model)
    s, longest = model.special, min(2 * rows.shape[1], model.architecture.positions - 2)
    with torch.inference_mode():
        out = hf.generate(
            input_ids=rows, attention_mask=mask, num_beams=beam, do_sample=False, max_new_tokens=longest,
            suppress_tokens=[s.bos, s.pad, s.unk, s.mask], use_cache=True,
        )  # fmt: skip
    return [[t for t in row[1:] if t not in (s.eos, s.pad)] for row in out.tolist()]


def to_ctranslate2(
    hf: Any, tokens: Sequence[str], folder: Path, quantization: str | None = None, workers: int = 1
) -> Any:
    """A CTranslate2 translator of the same model; quantization="int8" or None for float32.

    Each worker runs a batch on a core of its own: for models as small as these that is faster than to share one.
    """
    with extra("bench"):
        import ctranslate2
        from ctranslate2.converters.transformers import BartLoader

    hf = copy.deepcopy(hf)  # rounding happens in place
    hf.config.normalize_before = hf.config.model_type == "mbart"
    hf.config.normalize_embedding = True
    spec = BartLoader().get_model_spec(hf)
    spec.register_source_vocabulary(list(tokens))
    spec.register_target_vocabulary(list(tokens))
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = tokens[0], tokens[1], tokens[3]
    spec.config.decoder_start_token = tokens[1]
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    return ctranslate2.Translator(
        str(folder),
        compute_type=quantization or "float32",
        inter_threads=workers,
        intra_threads=1,
    )


def ctranslate2_run(
    translator: Any, model: Any, tokens: Sequence[str], sources: Sequence[Sequence[int]], beam: int = 1
) -> list[list[int]]:
    """CTranslate2 on a list of sources, in its own batches."""
    return [some[0] for some in ctranslate2_candidates(translator, model, tokens, sources, beam)]


def ctranslate2_candidates(
    translator: Any, model: Any, tokens: Sequence[str], sources: Sequence[Sequence[int]], beam: int = 1, n: int = 1
) -> list[list[list[int]]]:
    """The n best translations of each source."""
    s = model.special
    index = {token: i for i, token in enumerate(tokens)}
    rows = [[tokens[t] for t in (s.eos, *source, s.eos)] for source in sources]
    out = translator.translate_batch(
        rows, beam_size=beam, num_hypotheses=n, max_batch_size=2048, batch_type="tokens",
        max_decoding_length=model.architecture.positions - 2,
        suppress_sequences=[[tokens[t]] for t in (s.bos, s.pad, s.unk, s.mask)],
    )  # fmt: skip
    return [[[index[t] for t in one] for one in result.hypotheses] for result in out]
