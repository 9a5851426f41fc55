"""From a policy's configuration file to `order="learned"` in a translator."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
import torch

from anyorder import load
from anyorder.cli import main
from anyorder.models.architecture import Architecture
from anyorder.models.folder import save_model
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.policy import Policy
from anyorder.models.tokenizer import train_tokenizer
from anyorder.models.translation import SpecialIds
from anyorder.training.checkpoint import read_log
from anyorder.training.config import ConfigError
from anyorder.training.learn_order import policy_config, task_of, train_policy
from anyorder.training.order_tasks import some_rows
from anyorder.training.rewards import edit_distance

CONFIG = """
kind = "policy"
name = "tiny"
model = "{model}"
direction = "b-a"
valid_sentences = 4
[data]
languages = ["a", "b"]
train = [{{ copy = 40, seed = 1 }}]
valid = [{{ copy = 8, seed = 2 }}]
[policy]
method = "{method}"
iterations = {iterations}
generations = 3
update_batch = 8
updates = 2
hidden = 8
history = 2
validate_every = 2
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model of the copy task, as a folder."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    letters = " ".join("abcdefghijklmnopqrst")
    tokenizer = train_tokenizer([(letters, "a"), (letters, "b")], 300)
    torch.manual_seed(0)
    architecture = Architecture(len(tokenizer), 16, 1, 2, 16, 64, 2)
    save_model(MaskedTranslation(architecture, SpecialIds(), ("a", "b")), folder)
    tokenizer.save(folder / "tokenizer.json")
    lengths = {str(n): {str(n): 1} for n in range(1, 30)}
    (folder / "lengths.json").write_text(json.dumps({"a-b": lengths, "b-a": lengths}))
    return folder


def write(path: Path, model: Path, method: str = "ppo", iterations: int = 2) -> Path:
    path.write_text(CONFIG.format(model=model, method=method, iterations=iterations))
    return path


def test_a_resumed_run_ends_with_the_same_policy(model: Path, tmp_path: Path) -> None:
    straight, early, late = (
        policy_config(write(tmp_path / f"{n}{k}.toml", model, iterations=n)) for k, n in enumerate((6, 2, 6))
    )
    assert straight and early and late
    whole = Policy.load(train_policy(straight, tmp_path / "whole")).state_dict()
    train_policy(early, tmp_path / "parts")
    parts = Policy.load(train_policy(late, tmp_path / "parts")).state_dict()
    assert all(torch.equal(whole[k], parts[k]) for k in whole)
    logs = [read_log(tmp_path / run / "log.jsonl") for run in ("whole", "parts")]
    assert logs[0] == logs[1]


def test_a_policy_is_trained_resumed_and_used(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = policy_config(write(tmp_path / "p.toml", model))
    assert config is not None
    train_policy(config, tmp_path / "run")
    longer = write(tmp_path / "p.toml", model, iterations=4)
    with pytest.raises(SystemExit) as end:
        main(["train", str(longer), "--out", str(tmp_path / "run")])
    file = Path(capsys.readouterr().out.strip())
    assert not end.value.code and file.parent == tmp_path / "run"
    assert file.name == "policy-b-a.safetensors"
    log = read_log(tmp_path / "run" / "log.jsonl")
    assert [r["step"] for r in log] == [1, 2, 3, 4]
    assert {"reward", "entropy", "clip fraction", "explained variance"} <= log[0].keys() and "validation" in log[3]
    policy = Policy.load(file)
    assert policy.about["direction"] == "b-a" and policy.about["method"] == "ppo"

    (model / file.name).write_bytes(file.read_bytes())  # beside the model it is its learned order
    translator = load(model)
    text = translator.translate("a b c d", "a", order="learned").text
    assert text == translator.translate("a b c d", "a", order=policy).text
    assert text == translator.translate("a b c d", "a", order=str(file)).text
    with pytest.raises(ValueError, match="no learned order for a-b"):
        translator.translate("a b c d", "b", order="learned")


def test_episodes_are_canvases_of_the_references_length(model: Path, tmp_path: Path) -> None:
    config = policy_config(write(tmp_path / "p.toml", model, "imitation"))
    assert config is not None
    task = task_of(config)
    _, state, references = task.draw(5, torch.Generator().manual_seed(0))
    assert torch.equal(state.masked, references != task.model.pad_id)
    lengths = state.masked.sum(-1)
    texts = [row[:n] for row, n in zip(references.tolist(), lengths.tolist(), strict=True)]
    assert edit_distance(state, texts).tolist() == (-lengths).tolist()  # all masks: everything is wrong


def test_or_of_the_length_they_will_have_in_use(model: Path, tmp_path: Path) -> None:
    longer = copytree(model, tmp_path / "longer")  # it expects two symbols more than the source has
    (longer / "lengths.json").write_text(json.dumps({"b-a": {str(n): {str(n + 2): 9} for n in range(1, 30)}}))
    config = policy_config(write(tmp_path / "p.toml", longer))
    assert config is not None
    drawn = [task_of(replace(config, likeliest=x)).draw(5, torch.Generator().manual_seed(0)) for x in (False, True)]
    assert torch.equal(drawn[0].references, drawn[1].references)
    given, likeliest = (d.state.masked.sum(-1).tolist() for d in drawn)
    assert likeliest == [n + 2 for n in given]
    path = write(tmp_path / "p.toml", model, "imitation")
    path.write_text("likeliest = true\n" + path.read_text())
    with pytest.raises(ConfigError, match="imitation"):
        policy_config(path)


def test_episodes_of_a_draw_are_of_like_length_and_every_pair_is_drawn() -> None:
    g = torch.Generator().manual_seed(0)
    draws = [some_rows(1000, 5, g)[0] for _ in range(400)]
    assert all(len(set(rows)) == 5 and max(rows) - min(rows) < 40 for rows in draws)
    drawn = {row for rows in draws for row in rows}
    assert len(drawn) > 700 and max(drawn) < 1000
    assert sorted(some_rows(3, 3, g)[0]) == [0, 1, 2] and len(some_rows(2, 5, g)[0]) == 5


def test_a_hugging_face_masked_lm_learns_an_order_too(tmp_path: Path) -> None:
    import transformers as hf
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    names = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", *"abcdefgh"]
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(names)}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    hf.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", **special).save_pretrained(tmp_path / "lm")
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
    hf.BertForMaskedLM(hf.BertConfig(vocab_size=len(names), **sizes)).save_pretrained(tmp_path / "lm")
    (tmp_path / "text").write_text("a b c d\ne f g\nh a h a h\nb b\n")
    config = CONFIG.format(model=tmp_path / "lm", method="imitation", iterations=2).split("[data]")
    config[0] = config[0].replace('direction = "b-a"', "")
    policy_part = config[1][config[1].index("[policy]") :]
    files = '[{ files = ["text"] }]'
    data = f'[data]\nlanguages = []\nroot = "{tmp_path}"\ntrain = {files}\nvalid = {files}\n'
    (tmp_path / "p.toml").write_text(config[0] + data + policy_part)
    settings = policy_config(tmp_path / "p.toml")
    assert settings is not None
    file = train_policy(settings, tmp_path / "run")
    policy = Policy.load(file)
    assert file.name == "policy.safetensors" and policy.width == 12 and 0 <= policy.about["validation right, %"] <= 100
    found = load(tmp_path / "lm").fill("a [MASK] [MASK] d", n=1, order=policy, beam=1)
    assert len(found[0].tokens) == 2


def test_a_reward_of_one_s_own_lies_beside_the_configuration(model: Path, tmp_path: Path) -> None:
    """Also for the installed command, which does not look into folders by itself."""
    (tmp_path / "brevity_reward.py").write_text("def fewer(state, references):\n    return -state.masked.sum(-1)\n")
    file = write(tmp_path / "own.toml", model)
    file.write_text(file.read_text() + 'reward = "brevity_reward:fewer"\n')
    assert str(tmp_path) not in sys.path
    config = policy_config(file)
    assert config is not None and str(tmp_path) not in sys.path
    assert Policy.load(train_policy(config, tmp_path / "run")).about["reward"] == "brevity_reward:fewer"
    for wrong in ("brevity_reward:more", "no_such_module:fewer"):
        file.write_text(file.read_text().replace("brevity_reward:fewer", wrong))
        with pytest.raises(ConfigError, match=r"own\.toml: no reward"):
            policy_config(file)


def test_other_files_are_left_to_others_and_mistakes_are_told(model: Path, tmp_path: Path) -> None:
    (tmp_path / "stages.toml").write_text('name = "x"\n')
    assert policy_config(tmp_path / "stages.toml") is None
    assert policy_config(tmp_path / "missing.toml") is None
    wrong = write(tmp_path / "wrong.toml", model, "dqn")
    with pytest.raises(ConfigError, match=r"wrong\.toml: no method 'dqn'"):
        policy_config(wrong)
    wrong.write_text(wrong.read_text().replace("dqn", "ppo").replace("updates = 2", "update = 2"))
    with pytest.raises(ConfigError, match="no policy setting 'update'"):
        policy_config(wrong)
