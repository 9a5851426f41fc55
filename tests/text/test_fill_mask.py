"""`anyorder.pipeline`: one mask as transformers has it, on five architectures; several masks as brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import anyorder
from anyorder.adapters.fill_mask import best_by_mean, register
from anyorder.errors import AnyorderError

TEXTS = ["the cat sat on the mat .", "a dog ran in the park .", "the dogs were not bad at all ."] * 4
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}


def _wordpiece() -> Any:
    words = ["the", "cat", "sat", "on", "mat", ".", "a", "dog", "ran", "in", "park", "##s", "were", "not", "bad", "at"]
    return hf.BertTokenizer(vocab={w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])})


def _trained(model: Any, trainer: Any, before: Any, after: Any) -> Any:
    made = Tokenizer(model)
    made.pre_tokenizer, made.decoder = before, after
    made.train_from_iterator(TEXTS, trainer)
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}
    from tokenizers import AddedToken

    mask = AddedToken("<mask>", lstrip=True, special=True)
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=made, **names, unk_token="<unk>", pad_token="<pad>", mask_token=mask
    )


SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def _byte_level() -> Any:
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    return _trained(models.BPE(), trainer, pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel())


def _sentencepiece() -> Any:
    trainer = trainers.UnigramTrainer(vocab_size=60, special_tokens=SPECIAL, unk_token="<unk>")
    return _trained(models.Unigram(), trainer, pre_tokenizers.Metaspace(), decoders.Metaspace())


def _model(kind: str, words: Any) -> Any:
    torch.manual_seed(2)
    size = len(words)
    common = {"vocab_size": size, "pad_token_id": words.pad_token_id, "max_position_embeddings": 40, **SIZES}
    return {
        "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**common, initializer_range=0.5)),
        "electra": lambda: hf.ElectraForMaskedLM(hf.ElectraConfig(**common, embedding_size=8, initializer_range=0.5)),
        "roberta": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**common, initializer_range=0.5)),
        "xlm-roberta": lambda: hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(**common, initializer_range=0.5)),
        "modernbert": lambda: hf.ModernBertForMaskedLM(
            hf.ModernBertConfig(
                **common, bos_token_id=0, eos_token_id=2, cls_token_id=0, sep_token_id=2, local_attention=4
            )
        ),
    }[kind]().eval()


WORDS: dict[str, Callable[[], Any]] = {
    "bert": _wordpiece, "electra": _wordpiece, "roberta": _byte_level, "xlm-roberta": _sentencepiece,
    "modernbert": _byte_level,
}  # fmt: skip


@pytest.mark.parametrize("kind", WORDS)
def test_one_mask_is_transformers_answer(kind: str) -> None:
    words = WORDS[kind]()
    model = _model(kind, words)
    ours, theirs = anyorder.pipeline("fill-mask", model, words), hf.pipeline("fill-mask", model=model, tokenizer=words)
    mask = words.mask_token
    one, many = f"the {mask} sat .", [f"a dog {mask} in the park .", f"the {mask} ."]
    word = words.convert_ids_to_tokens(7)
    for args in ((one, {}), (many, {}), ([one], {}), (one, {"top_k": 3}), (one, {"targets": [word, "."]})):
        a, b = ours(args[0], **args[1]), theirs(args[0], **args[1])
        for x, y in zip(_flat(a), _flat(b), strict=True):
            assert x["score"] == pytest.approx(y["score"], abs=1e-5) and {**x, "score": 0} == {**y, "score": 0}
        assert type(a[0]) is type(b[0])


def _flat(answers: Any) -> list[Any]:
    return [x for some in answers for x in (some if isinstance(some, list) else [some])]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "bert"
    words = _wordpiece()
    words.save_pretrained(folder)
    _model("bert", words).save_pretrained(folder)
    return folder


def _joint(fill: Any, text: str, orders: Any) -> dict[tuple[int, ...], float]:
    """The mean over orders of the chain rule's log p, of every filling."""
    ids = fill.tokenizer(text)["input_ids"]
    masks = [i for i, t in enumerate(ids) if t == fill.model.mask_id]
    out = {}
    for symbols in itertools.product(range(len(fill.tokenizer)), repeat=len(masks)):
        total = 0.0
        for order in orders(masks):
            now = list(ids)
            for i in order:
                with torch.no_grad():
                    logp = fill.model.model(input_ids=torch.tensor([now])).logits[0, i].log_softmax(-1)
                now[i] = symbols[masks.index(i)]
                total += float(logp[now[i]])
        out[symbols] = total / len(list(orders(masks)))
    return out


@pytest.mark.parametrize(
    ("order", "orders"),
    [
        ("left2right", lambda m: [m]),
        ("right2left", lambda m: [m[::-1]]),
        ("mean", lambda m: list(itertools.permutations(m))),
    ],
)
def test_several_masks_are_filled_jointly_and_exactly(bert: Path, order: str, orders: Any) -> None:
    fill = anyorder.pipeline("fill-mask", model=bert)
    joint = _joint(fill, "the [MASK] [MASK] .", orders)
    best = sorted(joint, key=lambda s: -joint[s])[:6]
    found = fill("the [MASK] [MASK] .", top_k=6, order=order)
    assert [tuple(f["token"]) for f in found] == best
    assert [f["score"] for f in found] == pytest.approx([math.exp(joint[s]) for s in best], rel=1e-4)
    assert found[0]["sequence"] == fill.tokenizer.decode([5, *best[0], 10], skip_special_tokens=True)


def test_targets_of_several_tokens(bert: Path) -> None:
    fill = anyorder.pipeline("fill-mask", model=bert)
    text, joint = (
        fill("the [MASK] ran .", targets=["dogs", "cat"]),
        _joint(fill, "the [MASK] [MASK] ran .", lambda m: [m]),
    )
    (dogs,) = [f for f in text if f["token_str"] == "dogs"]
    assert dogs["score"] == pytest.approx(math.exp(joint[tuple(dogs["token"])]), rel=1e-4)
    assert dogs["sequence"] == "the dogs ran."
    (per_token,) = [f for f in fill("the [MASK] ran .", targets=["dogs"], compare="token")]
    assert per_token["score"] == pytest.approx(math.sqrt(dogs["score"]), rel=1e-4)


def test_it_is_registered_with_transformers(bert: Path) -> None:
    register()
    there = hf.pipeline("fill-mask-jointly", model=str(bert))
    assert there("the [MASK] [MASK] .", top_k=2) == anyorder.pipeline(model=bert)("the [MASK] [MASK] .", top_k=2)


@pytest.mark.parametrize(
    ("text", "how", "says"),
    [
        ("no mask", {}, "there is no"),
        ("the [MASK] .", {"targets": ["xyzzy"]}, "does not write"),
        ("the [MASK] [MASK] .", {"targets": ["cat"]}, "for one mask"),
        ("the [MASK] .", {"top_k": 0}, "top_k"),
        ("the [MASK] .", {"order": "best"}, "order is one of"),
        ("the [MASK] .", {"compare": "token"}, "for targets"),
    ],
)
def test_refusals(bert: Path, text: str, how: dict[str, Any], says: str) -> None:
    with pytest.raises(AnyorderError, match=says):
        anyorder.pipeline(model=bert)(text, **how)


def test_the_best_of_several_lists() -> None:
    values = {(i,): (math.sin(i), math.cos(3 * i)) for i in range(40)}
    lists = [sorted(((v[j], k) for k, v in values.items()), reverse=True) for j in (0, 1)]
    best = sorted(((sum(v) / 2, k) for k, v in values.items()), key=lambda x: -x[0])[:5]
    assert best_by_mean([iter(x) for x in lists], 5, lambda k: sum(values[k]) / 2) == best
