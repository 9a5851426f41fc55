"""Our Transformers: padding and other rows never matter, the cache is exact, folders come back as they were."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from anyorder.core.model import Model
from anyorder.errors import ModelError
from anyorder.models import load_model, save_model
from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
from anyorder.models.cmlm import ConditionalMasked
from anyorder.models.layers import Dropout
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.pretrained import PretrainedLM
from anyorder.models.transformer import Transformer
from anyorder.models.translation import Source, SpecialIds
from anyorder.models.weights import build, config_of

V, PAD, MASK, EOS = 40, 2, 4, 1
TRANSLATION = [MaskedTranslation, ConditionalMasked, Autoregressive]
KINDS = [*TRANSLATION, PretrainedLM]


def make(kind: type, norm: str = "post", seed: int = 0):
    torch.manual_seed(seed)
    architecture = Architecture(V, 16, 2, 4, 32, positions=24, norm=norm, dropout=0.3)
    model = kind(architecture, SpecialIds(), ("de", "en")).eval().requires_grad_(False)
    for p in model.parameters():  # a fresh model is close to symmetric: make differences visible
        p.add_(torch.randn_like(p) * 0.1)
    return model


def rows(*lengths: int) -> Tensor:
    """Random rows of these lengths, padded."""
    out = torch.full((len(lengths), max(lengths)), PAD)
    for i, n in enumerate(lengths):
        out[i, :n] = torch.randint(5, V, (n,))
    return out


def context(model, source: Tensor, target_lang: int | Tensor = 1, **options):
    if isinstance(model, PretrainedLM):
        return model.encode(torch.ones(len(source), dtype=torch.int64))
    return model.encode(Source(source, 0, target_lang, **options))


@pytest.mark.parametrize("kind", KINDS)
def test_follows_the_protocol(kind: type) -> None:
    model = make(kind)
    assert isinstance(model, Model)
    hidden = model.hidden(context(model, rows(3, 5)), rows(6, 4))
    assert hidden.shape == (2, 6, 16)
    assert model.logits(hidden[:, 0]).shape == (2, V)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_depend_on_padding_or_other_rows(kind: type, norm: str) -> None:
    model = make(kind, norm)
    source, target = rows(7, 3, 5), rows(4, 9, 6)
    target[1, 4] = target[2, 2] = MASK
    together = model.hidden(context(model, source), target)
    for i, (s, t) in enumerate([(7, 4), (3, 9), (5, 6)]):
        alone = model.hidden(context(model, source[i : i + 1, :s]), target[i : i + 1, :t])
        torch.testing.assert_close(together[i, :t], alone[0], rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", TRANSLATION)
def test_results_depend_on_the_source_and_both_languages(kind: type) -> None:
    model = make(kind)
    source, target = rows(5), rows(4)
    base = model.hidden(context(model, source), target)
    other = source.clone()
    other[0, 2] = (other[0, 2] - 5 + 1) % (V - 5) + 5
    assert (model.hidden(context(model, other), target) - base).abs().max() > 1e-3
    assert (model.hidden(context(model, source, 0), target) - base).abs().max() > 1e-3


@pytest.mark.parametrize("kind", TRANSLATION)
def test_one_language_a_row_equals_one_for_all(kind: type) -> None:
    model = make(kind)
    source, target = rows(5, 5), rows(4, 4)
    mixed = model.hidden(context(model, source, torch.tensor([1, 0])), target)
    torch.testing.assert_close(mixed[0], model.hidden(context(model, source, 1), target)[0])
    torch.testing.assert_close(mixed[1], model.hidden(context(model, source, 0), target)[1])


@pytest.mark.parametrize("kind", KINDS)
def test_take_repeats_and_reorders(kind: type) -> None:
    model = make(kind)
    source, target = rows(7, 3), rows(5, 4)
    c = context(model, source)
    base = model.hidden(c, target)
    order = torch.tensor([1, 0, 1])
    torch.testing.assert_close(model.hidden(c.take(order), target[order]), base[order], rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", [MaskedTranslation, ConditionalMasked])
def test_masked_models_see_both_sides_and_the_closing_delimiter(kind: type) -> None:
    model = make(kind)
    source, target = rows(5), rows(6)
    base = model.hidden(context(model, source), target)
    later = target.clone()
    later[0, 5] = MASK
    assert (model.hidden(context(model, source), later)[0, 0] - base[0, 0]).abs().max() > 1e-4
    assert (model.hidden(context(model, source, close=False), target) - base).abs().max() > 1e-4


def test_the_joint_canvas_is_that_of_xlm() -> None:
    model = make(MaskedTranslation)
    s, t = rows(3)[0].tolist(), rows(2)[0].tolist()
    states = model.transformer(
        torch.tensor([[EOS, *s, EOS, EOS, *t, EOS]]),
        torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3]]),
        torch.tensor([[0] * 5 + [1] * 4]),
    )
    ours = model.hidden(model.encode(Source(torch.tensor([s]), 0, 1)), torch.tensor([t]))
    torch.testing.assert_close(ours, states[:, 6:8])


def plain_layers(model: Transformer, tokens: Tensor, language: int) -> Tensor:
    """XLM's post-norm encoder, written out for one row with plain matrix algebra."""
    a = model.architecture
    x = model.embeddings.weight[tokens] + model.position_embeddings.weight[: len(tokens)]
    x = model.layer_norm_emb(x + model.lang_embeddings.weight[language])
    d = a.dim // a.heads
    for attention, norm1, ffn, norm2 in zip(
        model.attentions, model.layer_norm1, model.ffns, model.layer_norm2, strict=True
    ):
        q, k, v = (x @ attention.qkv_lin.weight.T + attention.qkv_lin.bias).split(a.dim, 1)
        heads = []
        for h in range(a.heads):
            part = slice(h * d, (h + 1) * d)
            weights = torch.softmax(q[:, part] @ k[:, part].T / d**0.5, -1)
            heads.append(weights @ v[:, part])
        x = norm1(x + attention.out_lin(torch.cat(heads, 1)))
        inner = x @ ffn.lin1.weight.T + ffn.lin1.bias
        x = norm2(x + ffn.lin2(inner * 0.5 * (1 + torch.erf(inner / 2**0.5))))
    return x


def test_layers_equal_plain_algebra() -> None:
    model = make(PretrainedLM).transformer
    tokens = rows(7)[0]
    ours = model(tokens[None], torch.arange(7), torch.tensor([[1]]))[0]
    torch.testing.assert_close(ours, plain_layers(model, tokens, 1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model.logits(ours), ours @ model.embeddings.weight.T + model.proj_bias)


def test_causal_states_ignore_what_comes_later() -> None:
    model = make(Autoregressive)
    source, target = rows(5), rows(6)
    base = model.hidden(context(model, source), target)
    later = target.clone()
    later[0, 3] = (later[0, 3] - 5 + 1) % (V - 5) + 5
    changed = model.hidden(context(model, source), later)
    torch.testing.assert_close(changed[0, :4], base[0, :4])
    assert (changed[0, 4] - base[0, 4]).abs().max() > 1e-4
    torch.testing.assert_close(model.states(context(model, source), target), base, rtol=0, atol=2e-6)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_cache_is_exact(norm: str) -> None:
    """Write left to right, change one's mind, reorder and drop rows, shorten: always what a fresh context says."""
    model = make(Autoregressive, norm)
    source, full = rows(7, 3, 5), rows(8, 8, 8)
    c = context(model, source)
    keep = torch.arange(3)

    def check(tokens: Tensor) -> None:
        fresh = model.hidden(context(model, source[keep]), tokens)
        torch.testing.assert_close(model.hidden(c, tokens), fresh, rtol=0, atol=2e-6)

    for known in (0, 1, 2, 3, 6):
        tokens = full.clone()
        tokens[:, known:] = MASK
        check(tokens)
    tokens = full.clone()
    tokens[1, 2] = (tokens[1, 2] - 5 + 1) % (V - 5) + 5
    tokens[:, 4:] = MASK
    check(tokens)
    order = torch.tensor([2, 0, 2, 1])
    c, keep, tokens = c.take(order), keep[order], tokens[order]
    tokens[0, 4] = 9
    check(tokens)
    check(tokens[:, :6])
    check(tokens)
    check(torch.cat([tokens, torch.full((4, 3), MASK)], 1))


def test_the_cache_runs_only_new_columns() -> None:
    model = make(Autoregressive)
    widths: list[int] = []
    model.decoder.register_forward_pre_hook(lambda module, args: widths.append(args[0].shape[1]))
    c, full = context(model, rows(5, 4)), rows(6, 6)
    for known in range(6):
        tokens = full.clone()
        tokens[:, known:] = MASK
        model.hidden(c, tokens)
    model.hidden(c, full)
    assert widths == [1] * 6


def test_nothing_is_defined_after_a_mask_in_a_causal_model() -> None:
    model = make(Autoregressive)
    tokens = rows(6, 6)
    tokens[0, 2] = MASK
    hidden = model.hidden(context(model, rows(4, 4)), tokens)
    assert hidden[0, 3:].abs().max() == 0 and hidden[0, 2].abs().max() > 0 and hidden[1, 5].abs().max() > 0


def test_the_autoregressive_model_starts_from_a_pretrained_one() -> None:
    pretrained, model = make(PretrainedLM, seed=1), make(Autoregressive)
    model.start_from(pretrained.transformer, pretrained.transformer)
    for half in (model.encoder, model.decoder):
        torch.testing.assert_close(half.ffns[1].lin1.weight, pretrained.transformer.ffns[1].lin1.weight)
    assert model.encoder.embeddings.weight is model.decoder.embeddings.weight


def test_length_predictor_is_a_distribution_that_knows_the_direction() -> None:
    model = make(ConditionalMasked)
    source = rows(5, 3)
    logp = model.log_length(context(model, source))
    torch.testing.assert_close(logp.exp().sum(1), torch.ones(2))
    assert (logp - model.log_length(context(model, source, 0))).abs().max() > 1e-4


def test_dropout_keeps_the_mean_and_drops_the_right_share() -> None:
    torch.manual_seed(0)
    layer = Dropout(0.25).train()
    x = torch.ones(1000, 1000, requires_grad=True)
    y = layer(x)
    assert abs(float((y == 0).float().mean()) - 0.25) < 0.005
    assert abs(float(y.mean().detach()) - 1) < 0.005
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())
    assert layer.eval()(x) is x


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_folder_round_trip(kind: type, half: bool, tmp_path: Path) -> None:
    model = make(kind)
    save_model(model, tmp_path, half=half)
    back = load_model(tmp_path)
    assert type(back) is kind and back.architecture == model.architecture and back.languages == ("de", "en")
    source, target = rows(5, 4), rows(6, 6)
    tolerance = 0.05 if half else 0
    difference = back.hidden(context(back, source), target) - model.hidden(context(model, source), target)
    assert difference.abs().max() <= tolerance
    assert all(p.dtype == torch.float32 and not p.requires_grad for p in back.parameters())


def test_damaged_folders_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        load_model(tmp_path)
    save_model(make(Autoregressive), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for change, message in [
        ({"format": 99}, "format 99"),
        ({"kind": "nonsense"}, "unknown kind"),
        ({"architecture": config["architecture"] | {"dim": 32}}, "should be"),
        ({"architecture": config["architecture"] | {"layers": 3}}, "misses"),
        ({"languages": 3}, "does not describe"),
    ]:
        (tmp_path / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(ModelError, match=message):
            load_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])
    with pytest.raises(ModelError, match="damaged"):
        load_model(tmp_path)


def test_too_long_is_refused() -> None:
    model = make(MaskedTranslation)
    with pytest.raises(ValueError, match="24 positions"):
        model.encode(Source(rows(23), 0, 1))
    with pytest.raises(ValueError, match="24 positions"):
        model.hidden(context(model, rows(5)), rows(23))


def test_a_conditional_masked_model_grows_out_of_an_autoregressive_one() -> None:
    start, model = make(Autoregressive, seed=1), make(ConditionalMasked)
    model.start_from(start.encoder, start.decoder)
    for ours, theirs in ((model.encoder, start.encoder), (model.decoder, start.decoder)):
        for name, weight in theirs.state_dict().items():
            torch.testing.assert_close(ours.state_dict()[name], weight)
    assert model.encoder.embeddings.weight is model.decoder.embeddings.weight


def test_halves_of_other_depths_take_the_layers_at_their_relative_depth() -> None:
    start = make(Autoregressive, seed=1)
    deep = replace(start.architecture, layers=4, decoder_layers=1)
    model = ConditionalMasked(deep, start.special, start.languages)
    assert (len(model.encoder.ffns), len(model.decoder.ffns)) == (4, 1)
    model.start_from(start.encoder, start.decoder)
    taken = [int((start.encoder.ffns[1].lin1.weight == f.lin1.weight).all()) for f in model.encoder.ffns]
    assert taken == [0, 0, 1, 1] and len(start.encoder.ffns) == 2
    torch.testing.assert_close(model.decoder.encoder_attn[0].q_lin.weight, start.decoder.encoder_attn[0].q_lin.weight)


@pytest.mark.parametrize("odd", [float("nan"), -1, 10**9, 1.0, None])
def test_a_description_with_an_odd_id_is_refused(odd: object) -> None:
    config = {**config_of(make(MaskedTranslation)), "unk_id": odd}
    with pytest.raises(ModelError, match="does not describe a model"):
        build(config)
