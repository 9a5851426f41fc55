"""The families of cases: what is drawn, what is done with it, and what must hold of the answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from anyorder.errors import AnyorderError
from anyorder.files import write_whole
from anyorder.text.plan import Plan
from anyorder.training.config import load_config
from tests.fuzz import commands
from tests.fuzz import strategies as say
from tests.fuzz.harness import Broken, refused, run, run_apart
from tests.fuzz.world import CONFIG, LINES, TINY, World

FAST = ["--steps", "2", "--lengths", "1"]


@dataclass(frozen=True)
class Family:
    """Cases of one kind: `share` of a campaign, how they are drawn, and what is done with each."""

    name: str
    share: float
    about: str
    draw: Callable[[World], st.SearchStrategy[Any]]
    check: Callable[[World, Any], str]  # → how it ended


def _plan(world: World, options: dict[str, Any]) -> str:
    return refused((AnyorderError,), lambda: Plan.of(**options).check())


def _outcome(code: int) -> str:
    return {0: "done", 1: "refused (1)", 2: "asked wrongly (2)"}[code]


def _translate(world: World, case: tuple[list[str], list[str], bytes], apart: bool = False) -> str:
    """A command line over files: whatever happens, no input is changed."""
    options, texts, stdin = case
    folder = world.fresh()
    names = {"{in}": "in.de", "{out}": "out", "{trace}": "t.out", "{folder}": ".", "{gz}": "in.gz"}
    placed = [str(folder / names[o]) if o in names else o for o in options]
    model = world.ar if "--int8" in options else world.grown if len(stdin) % 2 else world.translator
    to = [] if any(o.startswith("--to") for o in options) else ["--to", "en"]
    line = ["translate", *placed, *to, "-m", str(model), "--", *texts]
    done = run_apart(line, stdin, folder) if apart else run(line, stdin)
    given = [b.rsplit("/")[-1] for a, b in itertools.pairwise(placed) if a == "-i"]
    named = [b.rsplit("/")[-1] for a, b in itertools.pairwise(placed) if a in ("-o", "--trace")]
    world.untouched(*(name for name in named if name not in given))  # what is named as an output alone may be replaced
    if done.code == 0 and not texts and "--nbest" not in " ".join(options) and "--show" not in options:
        _line_for_line(placed, stdin, done.out, folder)
    return _outcome(done.code)


def _line_for_line(options: list[str], stdin: bytes, out: str, folder: Any) -> None:
    """A line in is a line out."""
    given = LINES.encode() if "-i" in options else stdin  # packed or not; the file itself may be an output by now
    if "-i" in options and options[options.index("-i") + 1].endswith("out"):
        return
    where = options[options.index("-o") + 1] if "-o" in options else None
    if where is not None and (where == "/dev/full" or not where.endswith("out")):
        return
    text = out if where is None else (folder / "out").read_text(encoding="utf-8", errors="replace")
    lines = given.count(b"\n") + (bool(given) and not given.endswith(b"\n"))
    if text.count("\n") != lines:
        raise Broken(f"{lines} lines in, {text.count(chr(10))} out")


def _write(world: World, arguments: list[str]) -> str:
    done = run([arguments[0], "-m", str(world.bert), *arguments[1:]], b"the [MASK] sat {}\n\n")
    return _outcome(done.code)


def _fill(world: World, case: tuple[list[str], list[int]]) -> str:
    """What stands outside the masks comes back to the byte."""
    from anyorder.text.load import load

    parts, masks = [part.replace("[MASK]", "").replace("<mask>", "") for part in case[0]], case[1]
    text = parts[0] + "".join("[MASK]" * n + part for n, part in zip(masks, parts[1:], strict=False))
    found: list[Any] = []
    ended = refused((AnyorderError,), lambda: found.extend(load(world.bert, kind="masked").fill(text, n=1, beam=1)))
    for filling in found:
        rest = filling.text
        for part in parts[: 1 + len(masks)]:
            at = rest.find(part)
            if at < 0:
                raise Broken(f"{part!r} of {text!r} is not in {filling.text!r}")
            rest = rest[at + len(part) :]
    return ended


def _view(world: World, content: bytes) -> str:
    folder = world.fresh()
    (folder / "bad.jsonl").write_bytes(content)
    done = run(["view", str(folder / "bad.jsonl"), "--no-open", "-o", str(folder / "page.html")])
    if (folder / "bad.jsonl").read_bytes() != content:
        raise Broken("the trace was changed")
    return _outcome(done.code)


def _folder(world: World, case: tuple[str, bytes]) -> str:
    """A model with a damaged file is used or refused: never a mistake of ours, never without a word."""
    name, content = case
    model = world.copy(world.translator)
    (model / name).write_bytes(content)
    done = run(["translate", "Ein Hund.", "--to", "en", "-m", str(model), *FAST])
    return _outcome(done.code)


def _config(world: World, content: str) -> str:
    path = world.fresh() / "config.toml"
    path.write_text(content, encoding="utf-8", errors="replace")
    return refused((AnyorderError,), lambda: load_config(path))


def _train(world: World, content: str) -> str:
    """A configuration is refused before it begins, or trained; what asks for much is only read."""
    folder = world.fresh()
    path = folder / "config.toml"
    path.write_text(content, encoding="utf-8", errors="replace")
    try:
        config = load_config(path)
    except AnyorderError:
        return "refused (1)"
    if sum(stage.steps for stage in config.stages) > 4 or any(c.copy > 1000 for c in config.data.train):
        return "not tried"
    return _outcome(run(["train", str(path), "--out", str(folder / "new")]).code)


def _evaluate(world: World, case: tuple[bytes, bytes, list[str]]) -> str:
    """Damaged test sets; translations stay beside their lines."""
    source, reference, options = case
    folder = world.fresh()
    (folder / "a").write_bytes(source)
    (folder / "b").write_bytes(reference)
    asked = ["--source", str(folder / "a"), "--reference", str(folder / "b"), "-o", str(folder / "c"), *FAST, *options]
    done = run(["evaluate", "-m", str(world.translator), *asked])
    if ((folder / "a").read_bytes(), (folder / "b").read_bytes()) != (source, reference):
        raise Broken("a test set was changed")
    return _outcome(done.code)


def _resume(world: World, case: tuple[str, bytes, list[str]]) -> str:
    """A run whose output or record was damaged goes on to what one run gives, or leaves everything as it is."""
    name, content, options = case
    folder = world.fresh()
    for file, whole in _resumable(world).items():
        (folder / file).write_bytes(whole)
    (folder / name).write_bytes(content)
    done = run(_resuming(world, *options, "--resume"))
    out = (folder / "x").read_bytes()
    if done.code == 0 and out != _resumable(world)["x"] and not options:
        raise Broken("resumed to something else")
    if done.code and out != (content if name == "x" else _resumable(world)["x"]) and not options:
        raise Broken("refused, but the output was changed")
    world.untouched()
    return _outcome(done.code)


def _resuming(world: World, *more: str) -> list[str]:
    page = world.page
    return ["translate", "-t", "en", "-m", str(world.translator), *FAST, "-i", str(page / "in.de"), "-o",
            str(page / "x"), *more]  # fmt: skip


def _resumable(world: World) -> dict[str, bytes]:
    """The files of a finished run."""
    if not hasattr(world, "finished"):
        kept = {p.name: p.read_bytes() for p in world.page.iterdir() if p.is_file()} if world.page.exists() else {}
        folder = world.fresh()
        if run(_resuming(world)).code:
            raise Broken("the undisturbed run failed")
        world.finished = {n: (folder / n).read_bytes() for n in ("x", "x.resume")}  # type: ignore[attr-defined]
        for name, content in kept.items():
            write_whole(folder / name, content)
    finished: dict[str, bytes] = world.finished  # type: ignore[attr-defined]
    return finished


def _convert(world: World, content: bytes) -> str:
    folder = world.fresh()
    (folder / "x.pth").write_bytes(content)
    done = run(["convert", str(folder / "x.pth"), str(folder / "new")])
    if done.code and (folder / "new").exists():
        raise Broken("a folder was left behind")
    return _outcome(done.code)


def _files_of(world: World) -> st.SearchStrategy[tuple[str, bytes]]:
    names = ["config.json", "tokenizer.json", "lengths.json", "model.safetensors"]

    def damaged(name: str) -> st.SearchStrategy[tuple[str, bytes]]:
        good = (world.translator / name).read_bytes()
        return st.tuples(st.just(name), say.damaged(good))

    return st.sampled_from(names).flatmap(damaged)


def _records(world: World) -> st.SearchStrategy[tuple[str, bytes, list[str]]]:
    found = _resumable(world)
    options = st.sampled_from([[], [], [], ["--seed=3"], ["--json"], ["--order=left2right"]])
    return st.sampled_from(sorted(found)).flatmap(
        lambda name: st.tuples(st.just(name), say.damaged(found[name]), options)
    )


def _checkpoint() -> bytes:
    import io

    import torch

    buffer = io.BytesIO()
    torch.save({"model": {}, "params": {"n_layers": 10**9}, "dico_id2word": {}, "dico_word2id": {}}, buffer)
    return buffer.getvalue()


def _stdin() -> st.SearchStrategy[bytes]:
    lines = st.lists(say.texts.map(lambda t: t.encode("utf-8", "surrogatepass")), max_size=4).map(b"\n".join)
    return st.one_of(lines, st.binary(max_size=80))


_gaps = st.tuples(st.lists(say.arguments, min_size=2, max_size=4), st.lists(st.integers(1, 2), min_size=1, max_size=3))
_limits = st.sampled_from([[], ["--limit=2"], ["--limit=0"], ["--limit=-1"], ["--json"], ["--order=nothing"]])


def _pages(world: World) -> st.SearchStrategy[tuple[bytes, bytes, list[str]]]:
    files = [world.given[name] for name in ("in.de", "in.gz", "bad.de", "empty")]
    side = st.sampled_from(files).flatmap(lambda good: st.one_of(st.just(good), say.damaged(good)))
    return st.tuples(side, side, _limits)


def _commands(world: World) -> st.SearchStrategy[tuple[list[str], list[str], bytes]]:
    return st.tuples(say.translations(), _stdin()).map(lambda pair: (*pair[0], pair[1]))


def _spoken(world: World) -> st.SearchStrategy[tuple[list[str], list[str], bytes]]:
    """Words that an operating system can pass on."""
    passed = st.lists(say.arguments.map(lambda t: t.encode("utf-8", "replace").decode()), max_size=3)
    return st.tuples(_commands(world), passed).map(
        lambda pair: ([o.encode("utf-8", "replace").decode() for o in pair[0][0]], pair[1], pair[0][2])
    )


def _processes(world: World, case: tuple[list[str], list[str], bytes]) -> str:
    return _translate(world, case, apart=True)


FAMILIES = [
    Family("plans", 40, "options of a plan, as a program gives them", lambda w: say.expressions(), _plan),
    Family("translate", 10, "command lines of translate, over files", _commands, _translate),
    Family("language models", 10, "command lines of fill, infill, generate, score", lambda w: say.writings(), _write),
    Family("commands", 9, "command lines of every command", lambda w: commands.lines(), commands.check),
    Family("masks", 8, "texts around masks come back to the byte", lambda w: _gaps, _fill),
    Family("traces", 6, "damaged traces", lambda w: say.damaged(w.trace), _view),
    Family("folders", 4, "model folders with a damaged file", _files_of, _folder),
    Family("configurations", 6, "training configurations", lambda w: say.configurations(CONFIG), _config),
    Family("test sets", 2, "damaged files for evaluate", _pages, _evaluate),
    Family("resuming", 2, "damaged outputs and records", _records, _resume),
    Family("training", 0.5, "training configurations, trained", lambda w: say.configurations(TINY), _train),
    Family("processes", 0.1, "command lines of translate, as a shell starts them", _spoken, _processes),
    Family("checkpoints", 2, "damaged checkpoints for convert", lambda w: say.damaged(_checkpoint()), _convert),
]
