"""Configurations: ours are right and explain every field; mistakes are told with their place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anyorder.training.config import ConfigError, load_config

CONFIGS = Path(__file__).parents[2] / "configs"
GOOD = (CONFIGS / "copy-task.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["copy-task", "de-en", "de-en-masked", "de-en-joint", "wmt14-paper"])
def test_our_configurations_are_valid_and_explain_every_field(name: str) -> None:
    path = CONFIGS / f"{name}.toml"
    config = load_config(path)
    assert config.name == name and config.stages
    explained: set[str] = {"name"}
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"(\w+) = ", line):
            assert "#" in line or match[1] in explained, f"{line!r} is not explained"
            explained.add(match[1])


def test_the_papers_settings() -> None:
    """Section 4 of the paper: 1024 units, 6 layers, 8 heads, 60k BPE, 256 sentences, 1e-4, β 0.9/0.98, dropout 0.1."""
    config = load_config(CONFIGS / "wmt14-paper.toml")
    m = config.model
    assert (m.dim, m.layers, m.heads, config.tokenizer.vocabulary, config.tokenizer.moses) == (1024, 6, 8, 60000, True)
    for stage in config.stages:
        assert (stage.sentences, stage.learning_rate, stage.betas, stage.dropout) == (256, 1e-4, [0.9, 0.98], 0.1)
        assert stage.start and stage.optimizer == "adam"
    assert [stage.direction for stage in config.stages] == ["", "en-de", "de-en"]  # a baseline for each direction
    assert (config.stages[0].mask_low, config.stages[0].mask_high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dropout = 0.0", "droput = 0.0", r"stages\[0\]: no setting 'droput'; did you mean 'dropout'\?"),
        ("dropout = 0.0", 'dropout = "none"', r"stages\[0\]\.dropout must be float, not 'none'"),
        ("steps = 250", "steps = 0", r"stages\[0\] \(masked\): steps must be at least 1"),
        ('optimizer = "muon"', 'direction = "a-c"', "direction must be a-b, b-a or left out, not 'a-c'"),
        ('objective = "masked-translation"', 'objective = "masked-lm"\ndirection = "a-b"', "have no direction"),
        ('optimizer = "muon"', 'optimizer = "sgd"', "optimizer must be one of adam, muon, not 'sgd'"),
        ('objective = "masked-translation"', 'objective = "bert"', "objective must be one of"),
        ('optimizer = "muon"', 'target = "x"\nback = "y"', "target or back, not both"),
        ('objective = "masked-translation"', 'objective = "masked-lm"\nback = "y"', "single sentences"),
        ("dim = 64", "", "model: 'dim' is missing"),
        ('languages = ["a", "b"]', 'languages = ["a"]', "two languages"),
        ("{ copy = 200, seed = 2 }", "{ seed = 2 }", "give one of files, tsv, hub and copy"),
        ("{ copy = 200, seed = 2 }", '{ files = ["x"] }', "files must be two"),
        ('name = "ar"', 'name = "masked"', "a name of its own"),
        ("[model]", "[model", "is not TOML"),
        ('name = "copy-task"', 'name = "../../escaped"', "must be a plain name"),
        ('name = "ar"', 'name = "../ar"', "without slashes"),
        ('languages = ["a", "b"]', 'languages = ["a", "a"]', "must be different"),
        ('languages = ["a", "b"]', 'languages = ["a", "../b"]', "no language's short name"),
        ("valid = [{ copy = 200, seed = 2 }]", "valid = []", "at least one corpus"),
        ("{ copy = 200, seed = 2 }", "{ copy = -2 }", "copy is a number of pairs"),
        ("{ copy = 200, seed = 2 }", "{ copy = 200, repeat = 0 }", "repeat must be at least 1"),
        ("vocabulary = ", "vocabulary = 10 #", "above 261 symbols"),
        ("heads = ", "heads = 0 #", "heads must be at least 1"),
        ("dim = 64", "dim = 63", "not a multiple"),
        ("layers = 2", "layers = 1000000", "would take about .* GB, and at most 64 GB"),
        ('name = "copy-task"', 'name = "copy-task"\nmost_memory = 0.0001', "raise most_memory"),
        ("positions = ", "positions = 0 #", "positions must be at least"),
        ("positions = ", "slots = [2, 2]\npositions = ", "slots = .2, 2., go together"),
        ("positions = ", "slots = [0, 2]\npositions = ", "slots are two numbers"),
        ("dropout = 0.0", "shortlist = [9, 9]", "shortlist is a setting of the objective alignment"),
        ("dropout = 0.0", "dropout = 1.0", "dropout must be from 0 to below 1"),
        ("dropout = 0.0", "dropout = nan", "dropout must be from 0 to below 1"),
        ("dropout = 0.0", "betas = [0.9, 1.5]", "betas must be from 0"),
        ("learning_rate = 4e-3", "learning_rate = -1.0", "learning_rate must be at least 0"),
        ("learning_rate = 4e-3", "learning_rate = inf", "learning_rate must be at least 0"),
        ("dropout = 0.0", "clip = 0", "clip must be above 0"),
        ("average = ", "average = 2 #", "average must be from 0"),
        ("dropout = 0.0", "seed = -1", "seed must be at least 0"),
        ("warmup = ", "warmup = -1 #", "warmup must be at least 0"),
    ],
)
def test_mistakes_are_told_with_their_place(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in GOOD
    path = tmp_path / "wrong.toml"
    path.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as error:
        load_config(path)
    assert re.search(r"wrong\.toml", str(error.value))


def test_a_missing_file_is_told() -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_config("nowhere.toml")
