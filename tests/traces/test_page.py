"""The page holds the traces safely, the picture is well-formed, pieces are shown as people read them."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import trace_examples as examples
import typer
from typer.testing import CliRunner

from anyorder.cli.view import view
from anyorder.traces import picture
from anyorder.traces import trace as tracing
from anyorder.traces.page import embedded, groups, page, source_text
from anyorder.traces.pieces import pieces

app = typer.Typer()
app.command()(view)
runner = CliRunner(env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"})  # messages on one line


class Elements(HTMLParser):
    """The elements of a page, with their attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][1].get("id") == "data":
            self.text += data


def parsed(traces: list[tracing.Trace], title: str = "t") -> Elements:
    elements = Elements()
    elements.feed(page(traces, title))
    return elements


def test_hostile_text_adds_no_element_and_comes_back_whole() -> None:
    plain, hostile = examples.example(), examples.example(target=examples.HOSTILE, source="</script><b onclick=x>&amp;")
    hostile = replace(hostile, recipe="<!-- <script>")
    assert [t for t, _ in parsed([plain]).found] == [t for t, _ in parsed([hostile], "</title><script>x").found]
    data = json.loads(parsed([hostile]).text)
    assert data["traces"][0]["tokens"] == examples.HOSTILE and data["groups"][0]["source"] == hostile.source


def test_page_fetches_nothing() -> None:
    text = page(examples.group())
    assert not re.search(r"(src|href)=|url\(|@import|fetch\(|XMLHttpRequest", text)
    assert "default-src 'none'" in text
    assert set(re.findall(r"https?://[^\s\"'`]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address


def test_placeholders_in_the_text_stay_text() -> None:
    data = json.loads(parsed([examples.example(target=["{{style}}", "{{data}}"])]).text)
    assert data["traces"][0]["tokens"] == ["{{style}}", "{{data}}"]


def test_embedded_json_has_no_markup() -> None:
    text = embedded({"a": "</script>&<!--\u2028", "b": -math.inf})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script>&<!--\u2028", "b": None}


def test_traces_of_one_source_are_side_by_side() -> None:
    other = examples.example(source="Ein Hund.")
    no_source = [examples.example(source=None), examples.example("left2right", source=None)]
    found = groups([*examples.group(), other, *no_source, *examples.group(seed=2)])
    assert [g["traces"] for g in found] == [[0, 1, 2, 3, 7, 8, 9, 10], [4], [5, 6]]
    assert found[0]["names"][0] == "left2right 1" and found[1]["names"] == ["easy-first"]
    assert found[2]["title"] == no_source[0].text


def test_no_traces_no_page() -> None:
    with pytest.raises(ValueError, match="no traces"):
        page([])
    with pytest.raises(ValueError, match="no traces"):
        picture.svg([])


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["▁Ein", "▁Wort", "es", "."], "Ein Wortes."),
        (["Ein", "Wort", "##es", "[SEP]"], "Ein Wortes [SEP]"),
        (["Ein", "Wort@@", "es"], "Ein Wortes"),
        (["Ein</w>", "Wort", "es</w>"], "Ein Wortes"),
        (["ĠSch", "Ã¶n", "Ġ!"], "Schön !"),
        (["▁a", "▁", "</s>"], "a ␣ </s>"),
        (["ein", "Wort"], "ein Wort"),
    ],
)
def test_pieces_read_as_words(tokens: list[str], text: str) -> None:
    assert source_text(replace(examples.example(source=None), source_tokens=tokens)) == text


def test_special_tokens_are_marked() -> None:
    special = [token for token, p in pieces(["▁a", "</s>", "[MASK]", "<|end|>", "[", "<"]).items() if p.special]
    assert special == ["</s>", "[MASK]", "<|end|>"]


@pytest.mark.parametrize("recipe", [*examples.ORDERS, "insertion"])
def test_lives_agree_with_replay(recipe: str) -> None:
    trace = examples.example(recipe)
    lives = picture.lives(trace)
    for t, canvas in enumerate(tracing.replay(trace)):
        now = [[v.token for v in cell if v.start < t and (v.end is None or v.end >= t)] for cell in lives]
        tokens = [(cell[-1] if cell else None) for cell in now]
        born = [token for token in tokens if token is not None] if trace.edit == "insert" else tokens
        if recipe == "mask-predict":  # drafts that were taken back in the step that wrote them are drawn for that step
            born = [b if c is not None else None for b, c in zip(born, canvas, strict=True)]
        assert born == canvas


@pytest.mark.parametrize("animated", [True, False])
def test_picture_is_well_formed_and_shows_every_token(animated: bool) -> None:
    hostile = examples.example(target=[*examples.HOSTILE, "\x00", "▁x"])
    traces = [*examples.group(), hostile, examples.example("insertion")]
    root = ElementTree.fromstring(picture.svg(traces, animated=animated))
    words = {node.text for node in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"afternoon", "laugh", "left2right", *examples.HOSTILE[:4], "\N{REPLACEMENT CHARACTER}"} <= words
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
    style = root.findtext("{http://www.w3.org/2000/svg}style") or ""
    assert ("@keyframes" in style) is animated and "prefers-color-scheme:dark" in style


def test_picture_shows_given_tokens() -> None:
    steps = [tracing.TraceStep(0, [1], ["▁new"], [1], [-0.1])]
    for edit, canvas in (("replace", ["▁first", None, "▁last"]), ("insert", ["▁first", "▁last"])):
        trace = tracing.Trace("r", canvas, steps, ["▁first", "▁new", "▁last"], -0.1, 1, 1, edit=edit)
        root = ElementTree.fromstring(picture.svg([trace]))
        words = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
        assert words == ["r", "first", "1", "new", "last"]


def test_ramp_matches_css_colour_math() -> None:
    # the sRGB primaries, as CSS Color 4 gives them in OKLCH
    assert picture.oklch(0.62796, 0.25768, 29.234) == "#ff0000"
    assert picture.oklch(0.86644, 0.29483, 142.495) == "#00ff00"
    assert picture.oklch(0.45201, 0.31321, 264.052) == "#0000ff"
    assert picture.oklch(1.0, 0.0, 0.0) == "#ffffff"


def test_command_writes_page_and_picture(tmp_path: Path) -> None:
    trace, svg = tmp_path / "run.jsonl", tmp_path / "run.svg"
    tracing.write(examples.group(), trace)
    result = runner.invoke(app, [str(trace), "--no-open", "--svg", str(svg)])
    assert result.exit_code == 0, result.output
    html = (tmp_path / "run.html").read_text()
    assert html.startswith("<!doctype html>") and "<title>run · anyorder</title>" in html
    assert svg.read_text().startswith("<svg ")


def test_command_reads_standard_input(tmp_path: Path) -> None:
    lines = "\n".join(tracing.to_lines(examples.example()))
    result = runner.invoke(app, ["-", "--no-open", "-o", str(tmp_path / "p.html")], input=lines)
    assert result.exit_code == 0 and (tmp_path / "p.html").exists()


@pytest.mark.parametrize(("content", "message"), [(None, "can not read"), ("{}\n", "line 1")])
def test_command_answers_bad_files(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "x.jsonl"
    if content is not None:
        path.write_text(content)
    result = runner.invoke(app, [str(path), "--no-open"])
    assert result.exit_code == 2 and message in " ".join(result.output.split())
    assert not (tmp_path / "x.html").exists()
