"""The playground and the documentation in a real browser, against a real server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_support import build_bert, build_grown, build_translator

import anyorder

pytest.importorskip("selenium")
pytest.importorskip("fastapi")
from selenium.webdriver.common.keys import Keys

from anyorder.serve.app import create
from anyorder.serve.run import Background
from anyorder.serve.server import Settings

TEXT = "Ein Hund läuft am Strand."
CELLS = """return [...document.querySelectorAll('.panel')]
    .map((panel) => [...panel.querySelectorAll('.ink')].map((cell) => cell.textContent))"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("models")
    build_translator(folder / "tiny")
    build_bert(folder / "bert")
    build_grown(folder / "grown")
    return {name: anyorder.load(folder / name) for name in ("tiny", "bert", "grown", "grown-ar")}


@pytest.fixture(scope="module")
def url(models: dict[str, Any]) -> Iterator[str]:
    with Background(create(models)) as address:
        yield address


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Any]:
    browser.get_log("browser")
    browser.get(url)
    yield browser
    assert [one for one in browser.get_log("browser") if one["level"] == "SEVERE"] == []


def wait(condition: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def write(page: Any, text: str = TEXT) -> None:
    box = page.find_element("id", "text")
    box.clear()
    box.send_keys(text, Keys.CONTROL, Keys.ENTER)  # by the keyboard alone
    wait(lambda: page.find_element("id", "download").is_enabled())


def test_two_strategies_are_written_side_by_side(page: Any, models: dict[str, Any]) -> None:
    write(page)
    panels = page.execute_script(CELLS)
    for cells, order in zip(panels, ("easy-first", "left2right"), strict=True):
        trace = models["tiny"].trace(TEXT, "en", source="de", order=order, lengths=1)
        assert len(cells) == len(trace.tokens) and all(cells)
    names = [h.text for h in page.find_elements("css selector", ".panel h2")]
    assert names == ["easy-first", "left2right"]
    page.find_element("id", "add").click()
    assert not page.find_element("id", "add").is_displayed()  # three at most
    write(page)
    assert len(page.execute_script(CELLS)) == 3
    page.find_element("css selector", ".drop").click()
    write(page)
    assert len(page.execute_script(CELLS)) == 2


def test_a_word_is_fixed_and_the_rest_written_anew(page: Any) -> None:
    write(page)
    page.find_elements("css selector", ".panel .cell")[1].click()
    word = page.find_element("id", "word")
    word.clear()
    word.send_keys("dog", Keys.ENTER)
    wait(
        lambda: (
            page.find_elements("css selector", ".panel .cell.fixed") and not page.find_elements("class name", "live")
        )
    )
    fixed = page.execute_script("return [...document.querySelectorAll('.cell.fixed .ink')].map((c) => c.textContent)")
    assert "".join(fixed).endswith("dog")  # perhaps after the sign of a word that begins
    page.find_element("class name", "free").click()
    wait(lambda: not page.find_elements("css selector", ".panel .cell.fixed"))


def test_the_same_request_elsewhere_and_the_trace(page: Any, url: str, models: dict[str, Any]) -> None:
    write(page)
    for kind, parts in {
        "python": ("import anyorder", 'order="easy-first"'),
        "curl": (f"curl -N {url}/v1/stream", '"lengths":1'),
        "cli": ("anyorder translate", "--order 'left2right'"),
    }.items():
        page.find_element("css selector", "#copy > summary").click()
        page.find_element("css selector", f"[data-copy={kind}]").click()
        wait(lambda: page.find_element("id", "copy").get_dom_attribute("data-copied"))
        said = page.find_element("id", "copy").get_dom_attribute("data-copied")
        assert all(part in said for part in parts), said
    page.find_element("css selector", "#copy > summary").click()
    page.execute_script("document.getElementById('copy').removeAttribute('data-copied')")
    page.find_element("css selector", "[data-copy=python]").click()
    wait(lambda: page.find_element("id", "copy").get_dom_attribute("data-copied"))
    code = page.find_element("id", "copy").get_dom_attribute("data-copied").replace('load("tiny")', "model")
    printed: list[str] = []
    exec(code.replace("anyorder.model", "model"), {"model": models["tiny"], "print": printed.append})
    assert printed[0] == models["tiny"].translate(TEXT, "en", lengths=1).text


def test_a_problem_is_said_and_nothing_is_injected(page: Any) -> None:
    page.find_element("css selector", ".strategy input").send_keys("<img src=x onerror=alert(1)>")
    box = page.find_element("id", "text")
    box.send_keys("<script>alert(1)</script> & <b>bold</b>", Keys.CONTROL, Keys.ENTER)
    wait(lambda: page.find_element("id", "problem").is_displayed())
    assert "<img src=x" in page.find_element("id", "problem").text
    assert (
        page.execute_script("return document.querySelectorAll('#problem img, .panel script, .panel b b').length") == 0
    )
    page.get_log("browser")  # the refusal itself is logged by the browser


def test_it_fits_a_phone_and_follows_the_theme(page: Any) -> None:
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        write(page)
        assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        dark = [{"name": "prefers-color-scheme", "value": "dark"}]
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": dark})
        assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(18, 17, 23)"
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def choose(page: Any, model: str) -> None:
    page.execute_script(
        "const m = document.getElementById('model'); m.value = arguments[0]; m.dispatchEvent(new Event('change'))",
        model,
    )


FIELDS = """return [...document.querySelectorAll('.strategy')].map((one) => [...one.querySelectorAll('.field')]
    .filter((field) => field.querySelector('input').checkVisibility({ visibilityProperty: true }))
    .map((field) => [field.textContent, field.querySelector('input').getBoundingClientRect().left]))"""


def offered(page: Any) -> list[list[str]]:
    """The options that each strategy offers; boxes of one name are below each other."""
    rows = page.execute_script(FIELDS)
    for name in {name for row in rows for name, _ in row}:
        assert len({left for row in rows for one, left in row if one == name}) == 1, name
    return [[name for name, _ in row] for row in rows]


def test_what_a_strategy_cannot_use_is_not_offered(page: Any) -> None:
    first = page.find_element("css selector", ".strategy input[list=orders]")
    all_of_them = ["Order", "Count", "Steps", "Beam", "Lengths", "Temperature"]
    assert offered(page) == [all_of_them, all_of_them]
    first.clear()
    first.send_keys("mask-predict(3)")
    assert offered(page) == [["Order", "Lengths", "Temperature"], all_of_them]  # below the headings of the first row
    page.find_element("css selector", ".drop").click()
    assert offered(page) == [all_of_them]
    choose(page, "grown-ar")
    assert offered(page) == [["Beam", "Temperature"]]
    choose(page, "bert")
    assert offered(page) == [[name for name in all_of_them if name != "Lengths"]]


def test_texts_that_end_by_themselves(page: Any, models: dict[str, Any]) -> None:
    """An order of its own, without lengths; a model that knows no other is asked for none."""
    choose(page, "grown")
    order = page.find_elements("css selector", ".strategy input[list=orders]")[1]
    order.clear()
    order.send_keys("forwards")
    assert offered(page) == [
        ["Order", "Count", "Steps", "Beam", "Lengths", "Temperature"],
        ["Order", "Beam", "Temperature"],
    ]
    write(page)
    assert page.find_elements("css selector", ".panel h2")[1].text == "forwards"
    trace = models["grown"].trace(TEXT, "en", source="de", order="forwards")
    assert len(page.execute_script(CELLS)[1]) == len(trace.tokens)
    page.find_elements("css selector", ".panel")[1].find_elements("css selector", ".cell")[0].click()
    page.find_element("id", "word").send_keys("dog", Keys.ENTER)
    wait(lambda: page.find_elements("css selector", ".panel .cell.fixed"))
    choose(page, "grown-ar")
    write(page)
    assert not page.find_element("id", "problem").is_displayed()


def test_a_language_model_fills_masks(page: Any, models: dict[str, Any]) -> None:
    choose(page, "bert")
    write(page, "the [MASK] sat on the [MASK] .")
    cells = page.execute_script(CELLS)[0]
    trace = models["bert"].trace("the [MASK] sat on the [MASK] .", order="easy-first")
    assert [c for c in cells if not c.startswith("[")] == [t for t in trace.tokens if t and not t.startswith("[")]


def test_nothing_comes_from_elsewhere(page: Any, url: str) -> None:
    write(page)
    names = page.execute_script("return performance.getEntriesByType('resource').map((r) => r.name)")
    assert all(name.startswith(url) for name in names)


def test_the_documentation_runs_its_examples(browser: Any, models: dict[str, Any]) -> None:
    """Swagger UI works offline, under its content-security policy, behind a prefix, and on a narrow screen."""
    with Background(create(models, Settings(root_path="/here"))) as url:
        size = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get_log("browser")
        browser.get(f"{url}/here/docs")
        wait(lambda: browser.find_elements("css selector", ".opblock-summary-path"))
        paths = {one.get_attribute("data-path") for one in browser.find_elements("class name", "opblock-summary-path")}
        assert {"/translate", "/v1/chat/completions", "/v1/stream", "/health"} <= paths
        for name in (".opblock-summary-control", ".try-out__btn", ".execute"):
            wait(lambda: browser.find_elements("css selector", name))  # noqa: B023
            button = browser.find_element("css selector", name)
            browser.execute_script("arguments[0].click()", button)
        wait(lambda: browser.find_elements("css selector", ".live-responses-table .response-col_status"))
        assert "translatedText" in browser.find_element("class name", "live-responses-table").text
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        assert [one for one in browser.get_log("browser") if one["level"] == "SEVERE"] == []
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_page_with_keys_asks_for_one(browser: Any, models: dict[str, Any], tmp_path: Path) -> None:
    with Background(create(models, Settings(keys=("secret",)))) as url:
        browser.get(url)
        box = browser.find_element("id", "text")
        box.send_keys(TEXT, Keys.CONTROL, Keys.ENTER)
        wait(lambda: browser.find_element("id", "problem").is_displayed())
        browser.find_element("id", "key").send_keys("secret")
        write(browser)
        assert all(browser.execute_script(CELLS)[0])
    browser.get_log("browser")
