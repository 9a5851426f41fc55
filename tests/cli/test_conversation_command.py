"""`anyorder generate` with a diffusion LM: --chat, --system, --stop, --show and --trace."""

from __future__ import annotations

import json
from pathlib import Path

from cli_support import Run

import anyorder
from anyorder.text.language_model import LanguageModel

FOLDERS = Path(__file__).parents[1] / "published"
ASK = [{"role": "user", "content": "Ein Junge"}]


def test_generate_answers(run: Run, tmp_path: Path) -> None:
    folder, file = str(FOLDERS / "llada"), tmp_path / "steps.jsonl"
    asked = ["generate", "Ein Junge", "-m", folder, "--length", "16", "--json"]
    chat = json.loads(run(*asked, "--chat").out)
    writer = anyorder.load(folder)
    assert isinstance(writer, LanguageModel)
    assert chat["text"] == writer.generate(ASK, length=16)[0].text
    stop = chat["text"][2:4]
    cut = json.loads(run(*asked, "--chat", "--stop", stop).out)
    assert cut["text"] == chat["text"][: chat["text"].find(stop)]
    short = run(*asked, "--system", "Kurz.")
    assert json.loads(short.out)["text"] == writer.generate("Ein Junge", system="Kurz.", length=16)[0].text
    shown = run("generate", "Ein", "-m", folder, "--length", "6", "--show", "--trace", str(file))
    assert shown.code == 0 and "6 forward passes" in shown.out
    assert sum("positions" in line for line in file.read_text().splitlines()) == 6
