"""Training as a whole: it learns, survives kill -9 to the bit, runs on two processes, and stops with clear words."""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from anyorder.data.ragged import Ragged
from anyorder.errors import DataError, TextError
from anyorder.files import FileError
from anyorder.models import load_model
from anyorder.models.folder import ModelFolder
from anyorder.text.load import load
from anyorder.text.translator import Translator
from anyorder.training.checkpoint import (
    Log,
    TrainingError,
    load_checkpoint,
    read_log,
    save_checkpoint,
    write_atomically,
)
from anyorder.training.config import Config, Data, Distillation, ParallelText, Sizes, Stage, Tokens
from anyorder.training.distill import ENGINES, distill, nearest, teacher
from anyorder.training.objectives import Corpus
from anyorder.training.prepare import one_way
from anyorder.training.run import export, train

CONFIGS = Path(__file__).parents[2] / "configs"


def config(*stages: Stage, **data: object) -> Config:
    corpora = {"train": [ParallelText(copy=300, seed=1)], "valid": [ParallelText(copy=40, seed=2)]} | data
    sizes = Sizes(dim=16, layers=1, heads=2, ffn=32, positions=24)
    return Config("test", Data(languages=["a", "b"], **corpora), Tokens(300), sizes, list(stages))


def stage(name: str = "masked", objective: str = "masked-translation", **settings: object) -> Stage:
    base = Stage(
        name, objective, steps=12, tokens=256, warmup=4, optimizer="muon", dropout=0.2, attention_dropout=0.1,
        average=0.9, validate=6, bleu_sentences=0, save_minutes=0.0,
    )  # fmt: skip
    return replace(base, **settings)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    state = load_checkpoint(folder / "checkpoint.pt")
    assert state is not None
    return {**state["model"], **{f"average.{k}": v for k, v in state["average"].items()}}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("objective", ["masked-lm", "masked-translation", "autoregressive", "cmlm"])
def test_every_objective_trains_and_leaves_a_model_folder(objective: str, tmp_path: Path) -> None:
    bleu = 0 if objective == "masked-lm" else 5
    settings = stage("s", objective, steps=40, learning_rate=5e-3, dropout=0.0, bleu_sentences=bleu, validate=20)
    (folder,) = train(config(settings), tmp_path)
    records = read_log(tmp_path / "s" / "log.jsonl")
    valid = [r["valid"] for r in records if "valid" in r]
    assert len(valid) == 2 and valid[1] < valid[0] < 5.5
    assert bleu == 0 or set(records[-1]["bleu"]) == {"a-b", "b-a"}
    assert load_model(folder).kind == objective
    files = {"config.json", "model.safetensors", "tokenizer.json", "lengths.json", "training.json"}
    assert {p.name for p in folder.iterdir()} == files
    assert json.loads((folder / "training.json").read_text())["stage"]["steps"] == 40
    assert (tmp_path / "s" / "curves.png").stat().st_size > 1000
    counts = json.loads((folder / "lengths.json").read_text())
    assert counts["a-b"] == counts["b-a"] and counts["a-b"]["3"] == {"3": counts["a-b"]["3"]["3"]}


@pytest.mark.parametrize("objective", ["autoregressive", "masked-translation"])
def test_a_stage_of_one_direction_learns_and_translates_that_one_alone(objective: str, tmp_path: Path) -> None:
    (folder,) = train(config(stage("s", objective, direction="b-a", bleu_sentences=3)), tmp_path)
    assert set(read_log(tmp_path / "s" / "log.jsonl")[-1]["bleu"]) == {"b-a"}
    assert json.loads((tmp_path / "s" / "stage.json").read_text())["direction"] == "b-a"
    translator = load(folder)
    assert isinstance(translator, Translator)
    assert translator.translate("a b", to="a").hypotheses
    with pytest.raises(TextError, match="was trained for b-a alone"):
        translator.translate("a b", to="b")
    with pytest.raises(FileError, match="direction was"):
        train(config(stage("s", objective, direction="a-b", bleu_sentences=3)), tmp_path)


def test_pairs_of_one_direction_have_its_target_alone() -> None:
    pairs = Corpus(Ragged.of([[1], [2], [3]]), Ragged.of([[4], [5], [6]]))
    assert one_way(pairs, 1).target.tolist() == [1, 1, 1]
    some = one_way(replace(pairs, target=torch.tensor([0, 1, 0])), 0)
    assert some.target.tolist() == [0, 0] and [some.first.row(i) for i in range(2)] == [[1], [3]]


def test_stages_start_from_one_another_and_are_not_repeated(tmp_path: Path) -> None:
    pretrain = stage("pre", "masked-lm", steps=4)
    settings = [stage(o, o, steps=1, start="pre", learning_rate=0.0) for o in ("masked-translation", "autoregressive")]
    train(config(pretrain, *settings), tmp_path)
    start = load_file(tmp_path / "pre" / "best" / "model.safetensors")
    joint = load_file(tmp_path / "masked-translation" / "best" / "model.safetensors")
    both = load_file(tmp_path / "autoregressive" / "best" / "model.safetensors")
    name = "ffns.0.lin1.weight"
    assert torch.equal(start[f"transformer.{name}"], joint[f"transformer.{name}"])
    assert torch.equal(start[f"transformer.{name}"], both[f"decoder.{name}"])
    before = (tmp_path / "pre" / "checkpoint.pt").stat().st_mtime_ns
    train(config(pretrain, *settings), tmp_path)
    assert (tmp_path / "pre" / "checkpoint.pt").stat().st_mtime_ns == before
    with pytest.raises(TrainingError, match="has not been trained yet"):
        train(config(pretrain, *settings), tmp_path / "elsewhere", only="autoregressive")
    with pytest.raises(TrainingError, match="no stage 'nonsense'"):
        train(config(pretrain), tmp_path, only="nonsense")


def test_a_stage_takes_over_the_special_symbols_of_where_it_starts(tmp_path: Path) -> None:
    (folder,) = train(config(stage(steps=1)), tmp_path / "one")
    settings = json.loads((folder / "config.json").read_text()) | {"mask_id": 6}  # as XLM's, elsewhere than ours
    (folder / "config.json").write_text(json.dumps(settings))
    (next_folder,) = train(config(stage(steps=1, start=str(folder))), tmp_path / "two")
    assert load_model(next_folder).mask_id == 6


SCRIPT = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
sys.path.insert(0, {tests!r})
from test_trainer import config, stage, train
train(config(stage({settings})), Path({out!r}))
"""


def script(out: Path, settings: str) -> str:
    return SCRIPT.format(tests=str(Path(__file__).parent), settings=settings, out=str(out))


def start(code: str) -> subprocess.Popen[bytes]:
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.PIPE)


@pytest.mark.parametrize("optimizer", ["muon", "adam"])
def test_killed_at_any_moment_and_resumed_ends_with_the_same_weights(optimizer: str, tmp_path: Path) -> None:
    settings = f"steps=30, validate=12, optimizer={optimizer!r}"
    torch.set_num_threads(1)
    train(config(stage(steps=30, validate=12, optimizer=optimizer)), tmp_path / "whole")
    checkpoint = tmp_path / "killed" / "masked" / "checkpoint.pt"
    for at in (3, 14):  # wait until that update is in a checkpoint, a little longer, and kill
        process = start(script(tmp_path / "killed", settings))
        while process.poll() is None:
            state = load_checkpoint(checkpoint)
            if state is not None and state["position"]["step"] >= at:
                break
            time.sleep(0.003)
        time.sleep(0.01)
        assert process.poll() is None, "it ended before it could be killed"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    killed = load_checkpoint(checkpoint)
    assert killed is not None and 14 <= killed["position"]["step"] < 30
    train(config(stage(steps=30, validate=12, optimizer=optimizer)), tmp_path / "killed")
    assert same(weights(tmp_path / "whole" / "masked"), weights(tmp_path / "killed" / "masked"))
    best = [load_file(tmp_path / run / "masked" / "best" / "model.safetensors") for run in ("whole", "killed")]
    assert same(*best)
    steps = [[r["step"] for r in read_log(tmp_path / run / "masked" / "log.jsonl")] for run in ("whole", "killed")]
    assert steps[0] == steps[1]


def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    """Two processes with a batch each, and one that adds up two batches: the same masks, dropout and updates."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    path = tmp_path / "run.py"
    path.write_text(script(tmp_path / "two", "accumulate=1"))
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={port}", str(path)]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(launch, env=env, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    train(config(stage(accumulate=2)), tmp_path / "one")
    one, two = weights(tmp_path / "one" / "masked"), weights(tmp_path / "two" / "masked")
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-3, atol=2e-5, msg=name)


def test_a_loss_that_is_not_a_number_stops_with_the_last_checkpoint_intact(tmp_path: Path) -> None:
    train(config(stage(steps=5)), tmp_path)
    path = tmp_path / "masked" / "checkpoint.pt"
    state = load_checkpoint(path)
    assert state is not None
    state["model"]["transformer.embeddings.weight"][:] = float("nan")
    save_checkpoint(path, state)
    before = path.read_bytes()
    with pytest.raises(TrainingError, match=r"the loss is nan at update 6 .*lower learning_rate"):
        train(config(stage(steps=10)), tmp_path)
    assert path.read_bytes() == before


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"step": 1})
    ignored, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(TrainingError, match=r"disk is full; the last good one.*intact"):
            save_checkpoint(path, {"step": 2, "weights": torch.zeros(1000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.pt"]
    assert load_checkpoint(path) == {"step": 1}
    save_checkpoint(path, {"step": 3})
    assert load_checkpoint(path) == {"step": 3}


def test_a_checkpoint_can_not_run_code(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path / 'exploded'}",)

    torch.save({"model": Bomb()}, tmp_path / "checkpoint.pt")
    with pytest.raises(TrainingError, match="cannot be read"):
        load_checkpoint(tmp_path / "checkpoint.pt")
    assert not (tmp_path / "exploded").exists()


def test_the_log_forgets_what_a_resumed_run_will_say_again(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write_atomically(path, b'{"step": 1}\n{"step": 5}\n{"step": 9}\n{"st')
    Log(path, 5).write(step=6)
    assert [r["step"] for r in read_log(path)] == [1, 5, 6]


def test_distilled_targets_are_the_teachers_and_can_be_trained_on(tmp_path: Path) -> None:
    settings = config(stage("teacher", steps=10))
    (teacher,) = train(settings, tmp_path / "teacher")
    paths = distill(settings, ModelFolder(teacher), tmp_path / "distilled", Distillation("teacher", limit=20))
    assert [p.name for p in paths] == ["a-b.tsv.gz", "b-a.tsv.gz"]
    for path, source in zip(paths, ("a", "b"), strict=True):
        rows = [line.split("\t") for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
        assert 15 < len(rows) <= 20 and all(len(row) == 2 for row in rows), source
    text = tmp_path / "more.a"
    text.write_text("w1 w2 w3\nw2 w2\n", encoding="utf-8")
    data = replace(settings.data, monolingual={"a": [str(text)]})
    how = Distillation("teacher", monolingual=True)
    more = distill(replace(settings, data=data), ModelFolder(teacher), tmp_path / "more", how)[0]
    sources = [line.split("\t")[0] for line in gzip.decompress(more.read_bytes()).decode().splitlines()]
    assert sources[-2:] == ["w1 w2 w3", "w2 w2"] and len(sources) == len(set(sources)) > 20
    student = stage("student", target=str(tmp_path / "distilled"), steps=2)
    (folder,) = train(config(student), tmp_path / "student")
    assert load_model(folder).kind == "masked-translation"
    assert json.loads((folder / "training.json").read_text())["distilled"]
    lengths = json.loads((folder / "lengths.json").read_text())  # of the teacher's translations, each in its direction
    written = [sum(n for row in lengths[d].values() for n in row.values()) for d in ("a-b", "b-a")]
    assert all(0 < n <= 20 for n in written)  # what is not too long to be trained on
    assert lengths != json.loads((teacher / "lengths.json").read_text())
    turned = stage("turned", "autoregressive", back=str(tmp_path / "more"), steps=2)
    (folder,) = train(replace(config(turned), data=data), tmp_path / "turned")
    assert json.loads((folder / "training.json").read_text())["back_translated"]
    with pytest.raises(DataError, match="let `anyorder distill` write it"):
        train(config(replace(student, target=str(tmp_path / "nowhere"))), tmp_path / "late")


def test_too_little_data_for_an_update_is_told(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"lower `accumulate`"):
        train(config(stage(accumulate=1000)), tmp_path)


def test_export_is_half_as_large_and_translates_alike(tmp_path: Path) -> None:
    (folder,) = train(config(stage(steps=2)), tmp_path / "run")
    export(folder, tmp_path / "shipped")
    sizes = [(f / "model.safetensors").stat().st_size for f in (folder, tmp_path / "shipped")]
    assert sizes[1] < 0.6 * sizes[0]
    for a, b in zip(load_model(folder).parameters(), load_model(tmp_path / "shipped").parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_a_configuration_distils_what_a_stage_names_from_a_stage_before_it(tmp_path: Path) -> None:
    teacher = stage("teacher", "autoregressive", steps=10)
    student = stage("student", "cmlm", start="teacher", target="written", steps=2, copies=2, own=0.5)
    how = Distillation("teacher", beam=2, best_of=2, limit=12)
    settings = replace(config(teacher, student), distill={"written": how})
    folder = train(settings, tmp_path)[1]
    assert load_model(folder).kind == "cmlm" and json.loads((folder / "training.json").read_text())["distilled"]
    rows = gzip.decompress((tmp_path / "written" / "a-b.tsv.gz").read_bytes()).decode().splitlines()
    assert 6 < len(rows) <= 12


def test_a_beam_that_can_not_be_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (teacher,) = train(config(stage("teacher", "autoregressive", steps=2)), tmp_path / "run")
    for how, word in ((Distillation("x", beam=10**6), "smaller beam"), (Distillation("x", best_of=3), "raise beam")):
        with pytest.raises(TrainingError, match=word):
            distill(config(), ModelFolder(teacher), tmp_path / "distilled", how)
        assert not (tmp_path / "distilled").exists()


def test_of_several_candidates_the_one_nearest_to_a_reference_is_taken() -> None:
    assert nearest([[1, 2, 3], [1, 2], [7]], [[1, 2, 4], [7, 8]]) == [1, 2, 3]  # one edit, as others: the best ranked
    assert nearest([[5], [1, 2], [7]], [[1, 2, 4]]) == [1, 2]
    assert nearest([[5], [1, 2]], []) == [5]


def test_ctranslate2_as_a_teacher_writes_what_ours_writes(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    (folder,) = train(config(stage("ar", "autoregressive", steps=10)), tmp_path)
    sources = [[7, 8, 9, 10], [11, 12]]
    ours, theirs = (teacher(ModelFolder(folder), engine, 1)(sources, (0, 1), 1) for engine in ENGINES)
    assert [a[0][:4] for a in ours] == [b[0][:4] for b in theirs]  # they end hopeless texts at other lengths


def test_a_finished_folder_is_not_taken_for_another_runs(tmp_path: Path) -> None:
    settings = config(stage(steps=2))
    train(settings, tmp_path / "run")
    train(replace(settings, stages=[stage(steps=2, save_minutes=9.0)]), tmp_path / "run")  # of no consequence
    data = settings.data
    others = [
        replace(settings, data=replace(data, train=[replace(data.train[0], seed=99)])),
        replace(settings, data=replace(data, languages=["a", "c"])),
        replace(settings, model=replace(settings.model, ffn=8)),
        replace(settings, stages=[stage(steps=2, learning_rate=0.5)]),
        replace(settings, stages=[stage(steps=4, objective="autoregressive")]),
    ]
    for other in others:
        with pytest.raises(FileError, match="is of another run"):
            train(other, tmp_path / "run")
    train(replace(settings, stages=[stage(steps=3, learning_rate=0.5)]), tmp_path / "run")  # there is more to do
    teacher = tmp_path / "run" / "masked" / "best"
    made = Distillation("teacher", limit=5)
    distill(settings, ModelFolder(teacher), tmp_path / "distilled", made)
    with pytest.raises(FileError, match="beam was 1, is 2"):
        distill(settings, ModelFolder(teacher), tmp_path / "distilled", replace(made, beam=2))


def test_a_damaged_cache_is_made_again(tmp_path: Path) -> None:
    settings = config(stage(steps=1))
    train(settings, tmp_path)
    (tmp_path / "corpus.pt").write_bytes(b"no cache")
    train(replace(settings, stages=[stage(steps=2)]), tmp_path)
