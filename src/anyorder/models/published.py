"""Folders of diffusion LMs as their authors publish them, on transformers' own classes; no code from there runs.

A folder names code beside its weights. What that code computes is a Llama or a Qwen under other names, with attention
to both sides (or by blocks): a `Family` says under which. Every field of its config.json that changes the computation
is obeyed, or the folder is refused by that field's name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from anyorder.errors import ModelError, first_line
from anyorder.models.hub import quiet

_ABSENT: Any = object()
_OF_ANY = (  # fields of any config.json that say nothing of the computation
    "model_type", "architectures", "auto_map", "transformers_version", "dtype", "torch_dtype", "use_cache",
    "return_dict", "bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id", "unk_token_id", "pad_token_id",
    "mask_token_id", "tokenizer_class", "model_max_length", "id2label", "label2id", "problem_type", "_name_or_path",
    "_commit_hash", "chunk_size_feed_forward", "output_attentions", "output_hidden_states",
    "_attn_implementation_autoset",
)  # fmt: skip


class Fields:
    """A config.json that is read field by field, so that none is passed over in silence."""

    def __init__(self, family: str, config: Mapping[str, Any]) -> None:
        self.family, self.config, self.seen = family, config, set(_OF_ANY)

    def __call__(self, name: str, default: Any = _ABSENT) -> Any:
        """A field that is obeyed; null is as good as absent."""
        self.seen.add(name)
        value = self.config.get(name)
        if value is None and default is _ABSENT:
            raise ModelError(f"config.json has no {name}, which {self.family} needs")
        return default if value is None else value

    def number(self, name: str, default: Any = _ABSENT) -> Any:
        """A field that is a positive number."""
        value = self(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ModelError(f"{name} in config.json is a positive number, not {value!r}")
        return value

    def only(self, name: str, known: tuple[Any, ...], default: Any) -> Any:
        """A field that is obeyed where it has one of these values, and refused otherwise."""
        value = self(name, default)
        if value not in known:
            said = " or ".join(map(repr, known))
            raise ModelError(f"{name} = {value!r} in config.json is not supported for {self.family}, only {said}")
        return value

    def without(self, *names: str) -> None:
        """Fields that would change the computation if they were set."""
        for name in names:
            if self(name, False):
                raise ModelError(f"{name} = {self.config[name]!r} in config.json is not supported for {self.family}")

    def ignored(self, *names: str) -> None:
        """Fields that say how a model is trained or made, not what it computes."""
        self.seen.update(names)

    def rest(self) -> None:
        """Refuse what nobody has asked for: it may change the computation."""
        for name in sorted(self.config.keys() - self.seen):
            if self.config[name] not in (None, False):
                raise ModelError(
                    f"{name} = {self.config[name]!r} in config.json is not known of {self.family}, and may change what "
                    "it computes: remove it if it does not"
                )


@dataclass(frozen=True)
class Mapped:
    """What a family's config.json says: the fields of the transformers class, and what is beside it."""

    config: dict[str, Any]
    mask_id: int
    block: int | None = None  # block-causal attention by that many columns
    head_bias: bool = False
    head_scale: float = 1.0  # of the logits
    zeros: tuple[str, ...] = ()  # ends of the names of parameters that the family does not have, and that are 0


@dataclass(frozen=True)
class Family:
    """A way in which diffusion LMs are published."""

    name: str
    base: str  # the causal LM of transformers that computes the same
    read: Callable[[Fields], Mapped]
    names: Mapping[str, str] = field(default_factory=dict)  # how tensors are named in the folder → there, as patterns
    shifted: bool = False  # the logits at i − 1 are for position i
    ends: tuple[str, ...] = ()  # symbols that end an answer, beside the folder's own end of text
    length: int = 128  # how many symbols its authors write, and how, given that number and that of steps:
    writes: Callable[[int, int | None], dict[str, Any]] = lambda length, steps: {}


# ------------------------------------------------------------------ LLaDA

_BLOCK = r"^model\.transformer\.blocks\.(\d+)\."
_LLADA_NAMES = {
    r"^model\.transformer\.wte\.": "model.embed_tokens.",
    r"^model\.transformer\.ln_f\.": "model.norm.",
    r"^model\.transformer\.ff_out\.": "lm_head.",
    _BLOCK + r"attn_norm\.": r"model.layers.\1.input_layernorm.",
    _BLOCK + r"ff_norm\.": r"model.layers.\1.post_attention_layernorm.",
    _BLOCK + r"q_proj\.": r"model.layers.\1.self_attn.q_proj.",
    _BLOCK + r"k_proj\.": r"model.layers.\1.self_attn.k_proj.",
    _BLOCK + r"v_proj\.": r"model.layers.\1.self_attn.v_proj.",
    _BLOCK + r"attn_out\.": r"model.layers.\1.self_attn.o_proj.",
    _BLOCK + r"ff_proj\.": r"model.layers.\1.mlp.gate_proj.",
    _BLOCK + r"up_proj\.": r"model.layers.\1.mlp.up_proj.",
    _BLOCK + r"ff_out\.": r"model.layers.\1.mlp.down_proj.",
}


def _llada(f: Fields) -> Mapped:
    """A Llama. Fields that are absent are what the published code takes them to be."""
    width, heads = f.number("d_model"), f.number("n_heads")
    several, kv = f("multi_query_attention", None), f("n_kv_heads", None)
    groups = {None: kv or heads, True: 1, False: heads}[several]
    if kv not in (None, groups):
        raise ModelError(
            f"n_kv_heads = {kv} and multi_query_attention = {several} in config.json contradict each other"
        )
    f.only("block_type", ("llama",), "sequential")
    f.only("block_group_size", (1,), 1)
    f.only("layer_norm_type", ("rms",), "default")
    f.only("layer_norm_with_affine", (True,), True)
    f.only("rope", (True,), False)
    f.without("alibi", "attention_layer_norm", "input_emb_norm")
    bias, qkv = f("include_bias", False), f("include_qkv_bias", False)
    if f("bias_for_layer_norm", bias):
        raise ModelError("biases of the norms (bias_for_layer_norm in config.json) are not supported for LLaDA")
    f.ignored(
        "attention_dropout", "residual_dropout", "embedding_dropout", "flash_attention", "rope_full_precision",
        "alibi_bias_max", "attention_layer_norm_with_affine", "init_device", "init_fn", "init_std", "precision",
        "init_cutoff_factor",
    )  # fmt: skip
    config = {
        "vocab_size": f.number("embedding_size", f.number("vocab_size")),
        "hidden_size": width,
        "intermediate_size": f.number("mlp_hidden_size", f.number("mlp_ratio", 4) * width),
        "num_hidden_layers": f.number("n_layers"),
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "hidden_act": f.only("activation_type", ("silu", "gelu", "relu"), "swiglu"),
        "max_position_embeddings": f.number("max_sequence_length", 1024),
        "rms_norm_eps": f.number("rms_norm_eps", 1e-5),
        "rope_parameters": {"rope_type": "default", "rope_theta": float(f.number("rope_theta", 10_000.0))},
        "attention_bias": bool(bias or qkv),
        "mlp_bias": bool(bias),
        "tie_word_embeddings": bool(f("weight_tying", True)),
    }
    return Mapped(
        config,
        f("mask_token_id"),
        head_bias=bool(bias) and not config["tie_word_embeddings"],
        head_scale=1 / math.sqrt(width) if f("scale_logits", False) else 1.0,
        zeros=("o_proj.bias",) if qkv and not bias else (),
    )


# ------------------------------------------------------------------ Dream

_QWEN2 = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "max_position_embeddings", "rms_norm_eps", "hidden_act", "rope_theta", "rope_scaling", "rope_parameters",
    "tie_word_embeddings",
)  # fmt: skip


def _qwen2(f: Fields) -> dict[str, Any]:
    """The fields of a Qwen 2, as they are."""
    f.without("use_sliding_window")
    f.ignored("sliding_window", "max_window_layers", "layer_types", "attention_dropout", "initializer_range")
    return {name: value for name in _QWEN2 if (value := f(name, None)) is not None}


def _dream(f: Fields) -> Mapped:
    return Mapped(_qwen2(f), f("mask_token_id"))


# ------------------------------------------------------------------ block diffusion


def _sdar(f: Fields) -> Mapped:
    """A Qwen 3: block-causal, its mask symbol and block known from its authors' code."""
    more = {name: value for name in ("head_dim", "attention_bias") if (value := f(name, None)) is not None}
    f.ignored("debug", "fuse_cross_entropy", "ep_size", "micro_forward", "skip_checkpoint")
    return Mapped(_qwen2(f) | more, f("mask_token_id", 151669), f("block_size", f("block_length", 4)))


def _fast_dllm(f: Fields) -> Mapped:
    return Mapped(_qwen2(f), f("mask_token_id", 151665), f("bd_size", 32))


def _nemotron(f: Fields) -> Mapped:
    """A Ministral 3, whose queries are scaled by their position as Llama 4's are."""
    f.without("sliding_window")
    f.ignored("attention_dropout", "initializer_range", "max_window_layers", "dlm_paradigm", "dlm_loss_weight")
    names = ("rope_parameters", "head_dim", *(name for name in _QWEN2 if not name.startswith("rope")))
    config = {name: value for name in names if (value := f(name, None)) is not None}
    return Mapped(config, f("mask_token_id", 100), f("block_size", 32))


def _in_blocks(size: int) -> Callable[[int, int | None], dict[str, Any]]:
    """LLaDA's way: a symbol a step unless there are fewer steps, the surest of each block, nothing drawn."""

    def writes(length: int, steps: int | None) -> dict[str, Any]:
        return {"order": f"llada({max(1, -(-(steps or length) * size // length))}, {size})", "temperature": 0.0}

    return writes


def _dream_writes(length: int, steps: int | None) -> dict[str, Any]:
    return {"order": f"dream({steps or length}, entropy)", "temperature": 0.2, "top_p": 0.95}


def _by_blocks(count: str, among: str) -> Callable[[int, int | None], dict[str, Any]]:
    """The surest of each block of columns; a number of steps is that of each block."""

    def writes(length: int, steps: int | None) -> dict[str, Any]:
        several = count if steps is None else f"even({steps})"
        return {"order": "confidence", "count": several, "among": among, "temperature": 0.0}

    return writes


FAMILIES: dict[str, Family] = {  # by what `architectures` names, for one model_type may mean several
    "LLaDAModelLM": Family(
        "LLaDA", "LlamaForCausalLM", _llada, _LLADA_NAMES, ends=("<|eot_id|>",), writes=_in_blocks(32)
    ),
    "DreamModel": Family(
        "Dream", "Qwen2ForCausalLM", _dream, shifted=True, ends=("<|im_end|>",), length=512, writes=_dream_writes
    ),
    "SDARForCausalLM": Family(
        "SDAR", "Qwen3ForCausalLM", _sdar, ends=("<|im_end|>",), writes=_by_blocks("even(4)", "aligned(4)")
    ),
    "Fast_dLLM_QwenForCausalLM": Family(
        "Fast-dLLM v2", "Qwen2ForCausalLM", _fast_dllm, shifted=True, ends=("<|im_end|>",),
        writes=_by_blocks("threshold(0.9)", "aligned(8, 32)"),
    ),
    "NemotronLabsDiffusionModel": Family(
        "Nemotron-Labs-Diffusion", "Ministral3ForCausalLM", _nemotron,
        {r"^encoder\.": "model.", r"^diffusion_head\.": "lm_head."}, writes=_by_blocks("threshold(0.9)", "aligned(32)"),
    ),
}  # fmt: skip
MODEL_TYPES = {  # where a folder names no architecture
    "llada": "LLaDAModelLM", "Dream": "DreamModel", "sdar": "SDARForCausalLM",
    "Fast_dLLM_Qwen": "Fast_dLLM_QwenForCausalLM", "nemotron_labs_diffusion": "NemotronLabsDiffusionModel",
}  # fmt: skip

UNKNOWN = {"llada2_moe": "LLaDA 2 is a mixture of experts of its own"}


def family_of(config: Mapping[str, Any]) -> Family | None:
    """The family of a config.json; None where it is none of these."""
    kind, named = config.get("model_type"), config.get("architectures")
    names = [str(name) for name in named] if isinstance(named, list) else []
    found = next((FAMILIES[name] for name in names if name in FAMILIES), None)
    if found is None and kind in UNKNOWN:
        raise ModelError(f"{UNKNOWN[kind]}, which transformers does not have: it is not supported")
    if found is None and kind in MODEL_TYPES:
        if names:
            raise ModelError(
                f"{names[0]} is not supported: of model_type {kind!r} there is {MODEL_TYPES[kind]} alone "
                "(its forward pass is another one)"
            )
        return FAMILIES[MODEL_TYPES[kind]]
    return found


def config_of(where: str | Path, **hub: Any) -> dict[str, Any]:
    """The config.json of a folder or hub name; empty where there is none that can be read."""
    from transformers.utils.hub import cached_file

    try:
        with quiet():
            found = cached_file(str(where), "config.json", _raise_exceptions_for_missing_entries=False, **hub)
        config = json.loads(Path(found).read_text(encoding="utf-8")) if found else {}
    except (OSError, ValueError, RecursionError):  # the loader that is tried next says so
        return {}
    return config if isinstance(config, dict) else {}


def ends_of(config: Mapping[str, Any], family: Family, tokenizer: Any) -> tuple[int, ...]:
    """The symbols that end a text: the folder's own, and the family's."""
    named = config.get("eos_token_id")
    own = named if isinstance(named, list) else [named, tokenizer.eos_token_id]
    words = tokenizer.get_vocab()
    return tuple(sorted({i for i in [*own, *(words.get(name) for name in family.ends)] if isinstance(i, int)}))


def load_weights(where: str, family: Family, config: Mapping[str, Any], **how: Any) -> tuple[Any, Mapped]:
    """The model of a folder or hub name, as transformers' class; `how` is for its `from_pretrained`."""
    import transformers

    fields = Fields(family.name, config)
    mapped = family.read(fields)
    fields.ignored("vocab_size")
    fields.rest()
    base = getattr(transformers, family.base)
    kind: Any = type(base.__name__, (base,), {"__init__": _with_head_bias(base)}) if mapped.head_bias else base
    own = base.config_class(**mapped.config, is_causal=False, pad_token_id=None, bos_token_id=None, eos_token_id=None)
    try:
        with quiet():
            model, found = kind.from_pretrained(
                where, config=own, key_mapping=dict(family.names), output_loading_info=True, **how
            )
    except Exception as error:  # missing, damaged, of other sizes …: as many types as causes
        raise ModelError(f"cannot load {family.name} from {where}: {first_line(error)}") from error
    absent = [name for name in found["missing_keys"] if not (mapped.zeros and name.endswith(mapped.zeros))]
    wrong = [
        *sorted(absent)[:1],
        *sorted(found["unexpected_keys"])[:1],
        *sorted(map(str, found["mismatched_keys"]))[:1],
    ]
    if wrong:
        raise ModelError(
            f"the weights in {where} are not those that its config.json describes: {', '.join(wrong)} and perhaps more "
            "are missing, unknown or of another size"
        )
    if mapped.head_scale != 1:
        model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach() * mapped.head_scale)
        if model.lm_head.bias is not None:
            model.lm_head.bias = nn.Parameter(model.lm_head.bias.detach() * mapped.head_scale)
    return model, mapped


def _with_head_bias(base: Any) -> Callable[[Any, Any], None]:
    def init(self: Any, config: Any) -> None:
        base.__init__(self, config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=True)

    return init


def tokenizer_of(where: str, family: str, **hub: Any) -> Any:
    """The tokenizer of a folder or hub name: its tokenizer.json, or a byte-level BPE like Qwen 2's from its parts."""
    from transformers import PreTrainedTokenizerFast, Qwen2Tokenizer
    from transformers.utils.hub import cached_file

    def there(name: str) -> bool:
        return cached_file(where, name, _raise_exceptions_for_missing_entries=False, **hub) is not None

    try:
        with quiet():
            if there("tokenizer.json"):
                return PreTrainedTokenizerFast.from_pretrained(where, **hub)
            if there("vocab.json") and there("merges.txt"):
                return Qwen2Tokenizer.from_pretrained(where, **hub)
    except Exception as error:  # its causes are as many as there are tokenizers
        raise ModelError(f"cannot load the tokenizer in {where}: {first_line(error)}") from error
    raise ModelError(f"{where} has no tokenizer: {family} needs tokenizer.json, or vocab.json and merges.txt")
