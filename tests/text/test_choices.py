"""Choices among labels: the chain rule, by brute force over a small BERT's own passes."""

from __future__ import annotations

import math

import pytest
import torch
from cli_support import build_bert

import anyorder
from anyorder.errors import TextError


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> anyorder.LanguageModel:
    loaded = anyorder.load(build_bert(tmp_path_factory.mktemp("models") / "bert"))
    assert isinstance(loaded, anyorder.LanguageModel)
    return loaded


def chain(writer: anyorder.LanguageModel, text: str, labels: dict[str, str], order: int = 1) -> float:
    """Σ log p of the labels in a text written with their names, symbol by symbol."""
    tokenizer, mask = writer.tokenizer, writer.model.mask_id
    ids, canvas = [tokenizer.cls_token_id], [tokenizer.cls_token_id]
    for word in text.split():
        new = tokenizer.encode(labels.get(word, word), add_special_tokens=False)
        ids += new
        canvas += [mask] * len(new) if word in labels else new
    ids, canvas, total = [*ids, tokenizer.sep_token_id], [*canvas, tokenizer.sep_token_id], 0.0
    for i in [i for i, t in enumerate(canvas) if t == mask][::order]:
        with torch.no_grad():
            logits = writer.model.model(input_ids=torch.tensor([canvas])).logits[0, i]
        logits[list(writer.model.special_ids)] = -torch.inf
        total += float(logits.log_softmax(-1)[ids[i]])
        canvas[i] = ids[i]
    return total


def test_labels_of_any_length_are_compared_by_the_chain_rule(writer: anyorder.LanguageModel) -> None:
    labels = ["cat", "dog sat", "cat on the mat"]
    found = writer.choose("the {} ran .", labels)
    want = {label: chain(writer, "the L ran .", {"L": label}) for label in labels}
    total = sum(math.exp(v) for v in want.values())
    assert {c.label: c.logp for c in found} == pytest.approx(want, abs=1e-4)
    assert {c.label: c.probability for c in found} == pytest.approx({k: math.exp(v) / total for k, v in want.items()})
    assert {c.label: c.symbols for c in found} == {"cat": 1, "dog sat": 2, "cat on the mat": 4}
    assert [c.probability for c in found] == sorted((c.probability for c in found), reverse=True)
    backwards = writer.choose("the {} ran .", labels, order="right2left", by="token")
    per = {label: chain(writer, "the L ran .", {"L": label}, -1) / len(label.split()) for label in labels}
    assert [c.label for c in backwards] == sorted(per, key=lambda k: -per[k])


def test_calibration_takes_off_what_a_label_is_worth_anywhere(writer: anyorder.LanguageModel) -> None:
    labels = ["cat", "dog", "mat"]
    worth = {label: chain(writer, "the L ran .", {"L": label}) - chain(writer, "L .", {"L": label}) for label in labels}
    found = writer.choose("the {} ran .", labels, calibrate="{} .")
    assert [c.label for c in found] == sorted(worth, key=lambda k: -worth[k])


def test_a_form_is_read_jointly_or_slot_by_slot(writer: anyorder.LanguageModel) -> None:
    form = "the {who:cat|dog sat} ran on {where:mat|the park} ."
    joint = {
        (a, b): chain(writer, "the A ran on B .", {"A": a, "B": b})
        for a in ("cat", "dog sat") for b in ("mat", "the park")
    }  # fmt: skip
    total = sum(math.exp(v) for v in joint.values())
    found = writer.read(form)
    best = max(joint, key=lambda pair: joint[pair])
    assert found.best == {"who": best[0], "where": best[1]} and found.logp == pytest.approx(joint[best], abs=1e-4)
    for at, name in enumerate(("who", "where")):
        for choice in found.slots[name]:
            p = sum(math.exp(v) for pair, v in joint.items() if pair[at] == choice.label) / total
            assert choice.probability == pytest.approx(p, abs=1e-5)
    before = writer.cost.forwards
    each = writer.read("the {who:cat|dog} ran on {where:mat|park} .", joint=False)
    assert writer.cost.forwards - before == 2 and set(each.slots) == {"who", "where"}
    assert sum(c.probability for c in each.slots["who"]) == pytest.approx(1)


def test_what_cannot_be_chosen_is_said(writer: anyorder.LanguageModel) -> None:
    for text, labels, why in (
        ("the cat", ["a", "b"], "one slot"), ("the {}", ["cat"], "two labels"), ("the {}", ["cat", "cat"], "twice"),
        ("the {} .", ["cat", " "], "empty"),
    ):  # fmt: skip
        with pytest.raises(TextError, match=why):
            writer.choose(text, labels)
    with pytest.raises(TextError, match="each of a name of its own"):
        writer.read("the {a:cat|dog} and {a:cat|dog}")
    with pytest.raises(TextError, match="order is mean or one of"):
        writer.choose("the {} .", ["cat", "dog"], order="best")
