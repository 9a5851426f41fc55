"""The paper's setting from end to end, in small: a mirror's corpus, Moses, joint BPE, two updates, a report."""

from __future__ import annotations

import gzip
import io
import random
import re
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cli_support import Run

CONFIG = Path(__file__).parents[2] / "configs/wmt14-paper.toml"
LINES = 60
WORDS = {
    "de": "Der Hund läuft über die Straße , und ein Kind spielt .",
    "en": 'The dog\'s run "here" & a child plays .',
}


def lines(language: str, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS[language].split(), k=draw.randint(2, 4))) for _ in range(LINES)]


def archive(path: Path, members: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as file:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            file.addfile(info, io.BytesIO(text.encode()))


def sgml(texts: list[str]) -> str:
    escaped = (text.replace("&", "&amp;").replace('"', "&quot;") for text in texts)
    segments = "".join(f'<seg id="{n}">{text}</seg>\n' for n, text in enumerate(escaped, 1))
    return f'<refset trglang="any">\n<doc docid="1">\n<p>\n{segments}</p>\n</doc>\n</refset>\n'


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    folder, both = tmp_path / "mirror/www.statmt.org", ("de", "en")
    for year, name, inside in (
        ("wmt13", "training-parallel-europarl-v7", "training/europarl-v7.de-en"),
        ("wmt13", "training-parallel-commoncrawl", "commoncrawl.de-en"),
        ("wmt14", "training-parallel-nc-v9", "training/news-commentary-v9.de-en"),
    ):
        other = {"training/europarl-v7.fr-en.fr": "ailleurs\n"}
        texts = {f"{inside}.{k}": "\n".join(lines(k, len(name))) + "\n" for k in both}
        archive(folder / year / f"{name}.tgz", other | texts)
    archive(folder / "wmt14/dev.tgz", {f"dev/newstest2013.{k}": "\n".join(lines(k, 13)[:1]) + "\n" for k in both})
    tests = {f"test-full/newstest2014-deen-{w}.{k}.sgm": sgml(lines(k, 14)[:1]) for w in ("src", "ref") for k in both}
    archive(folder / "wmt14/test-full.tgz", {**tests, "test-full/newstest2014-fren-src.fr.sgm": sgml(["ailleurs"])})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder.parent)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def small(text: str) -> str:
    """The paper's configuration with small numbers, its own BPE, and nothing but the first stage and its updates."""
    text = text[: text.index("[[stages]]", text.index("[[stages]]") + 1)]
    changes = {"vocabulary": 300, "dim": 16, "layers": 1, "heads": 2, "ffn": 32, "positions": 64, "steps": 2}
    changes |= {"tokens": 400, "warmup": 1, "validate": 2, "bleu_sentences": 2}
    for name, value in changes.items():
        text, found = re.subn(rf"^{name} = \d+", f"{name} = {value}", text, flags=re.MULTILINE)
        assert found == 1, name
    return re.sub(r"^(file|start) = .*\n", "", text, flags=re.MULTILINE)


def test_from_a_mirror_to_the_report(mirror: str, run: Run, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "runs"
    said = run("data", "wmt14", data, "--mirror", mirror)
    assert said.code == 0, said.err
    names = [Path(line).name for line in said.out.splitlines()]
    assert names == ["train.de.gz", "train.en.gz", *(f"newstest{y}.{k}" for y in (2013, 2014) for k in ("de", "en"))]
    for k in ("de", "en"):
        assert (data / f"wmt14/newstest2014.{k}").read_text("utf-8").splitlines() == lines(k, 14)[:1]  # not as SGML
        with gzip.open(data / f"wmt14/train.{k}.gz", "rt", encoding="utf-8") as file:
            assert len(file.readlines()) == 3 * LINES
    config = tmp_path / "small.toml"
    config.write_text(small(CONFIG.read_text("utf-8")), "utf-8")
    said = run("train", config, "--data", data, "--out", out)
    assert said.code == 0, said.err
    (folder,) = (path.parent for path in out.rglob("masked/*/model.safetensors") if path.parent.name == "best")
    said = run(
        "reproduce", "--data", data, "--model", folder, "--set", "newstest2014", "--val", "newstest2013",
        "--others", "", "--quick", "--jobs", "1", "-o", tmp_path / "report",
    )  # fmt: skip
    assert said.code == 0, said.err
    page = (tmp_path / "report/README.md").read_text("utf-8")
    assert "newstest2014" in page and "| 5.1 |" in page and "more rows are not measured" not in page
    assert "--set newstest2014 --val newstest2013" in page  # the page names its command


def test_an_archive_without_the_test_set_is_said(mirror: str, run: Run, tmp_path: Path) -> None:
    archive(tmp_path / "mirror/www.statmt.org/wmt14/test-full.tgz", {"test-full/readme": "moved"})
    said = run("data", "wmt14", tmp_path / "data", "--mirror", mirror)
    assert said.code == 1 and "holds no newstest2014 in German and English" in said.err
    said = run("data", "wmt14", tmp_path / "data", "--mirror", mirror, "--from", tmp_path)
    assert said.code == 2 and "leave one of the two out" in said.err
