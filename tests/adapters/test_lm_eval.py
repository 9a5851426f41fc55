"""lm-evaluation-harness on local tasks with a small model: equal to ten lines on the model itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("lm_eval")

from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

import anyorder.adapters.lm_eval
from anyorder.text.language_model import LanguageModel
from anyorder.text.load import load

FOLDER = Path(__file__).parents[1] / "published" / "llada"
DOCS = [{"q": "Ein Junge", "choices": [" spielt", " Ball", " rot"], "answer": k} for k in range(2)]
TASKS: dict[str, dict[str, Any]] = {
    "tiny_choice": {
        "output_type": "multiple_choice", "doc_to_text": "{{q}}", "doc_to_target": "answer", "target_delimiter": "",
        "doc_to_choice": "choices", "metric_list": [{"metric": "acc"}],
    },
    "tiny_rolling": {
        "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{q}}",
        "metric_list": [{"metric": "byte_perplexity"}],
    },
    "tiny_write": {
        "output_type": "generate_until", "doc_to_text": "{{q}}", "doc_to_target": "x",
        "generation_kwargs": {"until": ["e"], "max_gen_toks": 8}, "metric_list": [{"metric": "exact_match"}],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, DOCS)), encoding="utf-8")
    files = {"data_files": {"test": str(folder / "data.jsonl")}}
    for name, task in TASKS.items():
        whole = {"task": name, "dataset_path": "json", "dataset_kwargs": files, "test_split": "test", **task}
        (folder / f"{name}.yaml").write_text(json.dumps(whole), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def writer() -> LanguageModel:
    loaded = load(FOLDER)
    assert isinstance(loaded, LanguageModel)
    return loaded


def evaluate(tasks: Path, name: str, **more: Any) -> Any:
    manager = TaskManager(include_path=str(tasks), include_defaults=False)
    how = {"model_args": {"pretrained": str(FOLDER)}, "task_manager": manager, "log_samples": True, **more}
    return simple_evaluate(model="anyorder", tasks=[name], bootstrap_iters=0, **how)


def ten_lines(model: Any, given: list[int], text: list[int]) -> float:
    """Σ log p(y_i | y_<i, masks after), of the model itself."""
    y, total = given + [model.mask_id] * len(text), 0.0
    for k, token in enumerate(text):
        with torch.inference_mode():
            x = model.logits(model._run(model.body, torch.tensor([y]))[0])[len(given) + k].clone()
            x[model.mask_id] = -torch.inf
            total += float(x.log_softmax(-1)[token])
        y[len(given) + k] = token
    return total


def test_likelihoods_are_those_of_ten_lines_whatever_the_batch(tasks: Path, writer: LanguageModel) -> None:
    one, many = (evaluate(tasks, "tiny_choice", batch_size=b)["samples"]["tiny_choice"] for b in (1, 16))

    def encode(text: str) -> list[int]:
        return list(writer.tokenizer.encode(text, add_special_tokens=False))

    for sample, other in zip(one, many, strict=True):
        assert sample["resps"] == other["resps"], "a score does not depend on the batch"
        for choice, response in zip(sample["doc"]["choices"], sample["resps"], strict=True):
            given = encode("Ein Junge")
            expected = ten_lines(writer.model, given, encode("Ein Junge" + choice)[len(given) :])
            assert abs(float(response[0][0]) - expected) < 1e-3
    assert evaluate(tasks, "tiny_rolling")["results"]["tiny_rolling"]["byte_perplexity,none"] > 1


def test_texts_are_written_until_they_end(tasks: Path, writer: LanguageModel) -> None:
    samples = evaluate(tasks, "tiny_write")["samples"]["tiny_write"]
    (whole,) = writer.generate("Ein Junge", length=8)
    assert samples[0]["resps"][0][0] == whole.text.removeprefix("Ein Junge").split("e")[0]
    chat = evaluate(tasks, "tiny_write", apply_chat_template=True)["samples"]["tiny_write"]
    (answer,) = writer.generate([{"role": "user", "content": "Ein Junge"}], length=8)
    assert chat[0]["resps"][0][0] == answer.text.split("e")[0]


def test_the_command_line_takes_our_model_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    import lm_eval.__main__ as harness

    seen: list[list[str]] = []
    monkeypatch.setattr(harness, "cli_evaluate", lambda: seen.append(sys.argv[1:]))
    for given in (["--tasks", "a"], ["run", "--tasks", "a"], ["--model", "hf"]):
        monkeypatch.setattr(sys, "argv", ["lm_eval", *given])
        anyorder.adapters.lm_eval.main()
    ours = ["--model", "anyorder"]
    assert seen == [[*ours, "--tasks", "a"], ["run", *ours, "--tasks", "a"], ["--model", "hf"]]


def test_likelihoods_by_name(writer: LanguageModel) -> None:
    ways: Any = ("chain", "pll", "bound", "marginal")
    found: Any = {by: writer.likelihood(" spielt", "Ein Junge", by=by, samples=8) for by in ways}
    assert len({round(one.nats, 6) for one in found.values()}) == 4
    assert found["bound"].error > 0 == found["chain"].error
    assert found["chain"].bits == pytest.approx(found["chain"].nats * 1.4426950409)
    assert found["chain"].tokens == len(writer.tokenizer.encode("Ein Junge spielt")) - len(
        writer.tokenizer.encode("Ein Junge")
    )
