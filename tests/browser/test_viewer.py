"""The viewer in a real browser: it loads, plays, scrubs, shows what the trace says, and lets nothing in."""

from __future__ import annotations

import math
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trace_examples as examples

from anyorder.traces.pieces import pieces
from anyorder.traces.trace import Trace, replay

pytest.importorskip("selenium")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

Opened = Callable[..., Any]

CANVAS = """
const shown = (cell) => (cell.classList.contains('filled') ? cell.querySelector('.ink').textContent : null);
return [...document.querySelectorAll('.panel')].map((p) => [...p.querySelectorAll('.cell:not([hidden])')].map(shown))"""


def expected(trace: Trace, t: int) -> list[str | None]:
    """The canvas after t steps, as the page should show it."""
    shown = pieces([token for canvas in replay(trace) for token in canvas if token is not None])
    return [None if token is None else shown[token].text for token in replay(trace)[min(t, len(trace.steps))]]


def press(browser: Any, *keys: str) -> None:
    ActionChains(browser).send_keys(*keys).perform()


def step_of(browser: Any) -> int:
    return int(browser.find_element("id", "scrub").get_property("value"))


def wait(browser: Any, condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def scrub(browser: Any, t: int) -> None:
    browser.execute_script(
        "const s = document.getElementById('scrub'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))", t
    )


def test_every_moment_of_every_strategy_is_what_replay_says(opened: Opened) -> None:
    traces = [*examples.group(), examples.example("insertion")]
    browser = opened(traces)
    for t in (*range(21), 7, 0):
        scrub(browser, t)
        assert browser.execute_script(CANVAS) == [expected(trace, t) for trace in traces]


def test_plays_to_the_end_by_itself_and_pauses(opened: Opened) -> None:
    trace = examples.example()
    browser = opened([trace], step=None)
    play = browser.find_element("id", "play")
    assert play.get_attribute("aria-label") == "Pause"
    wait(browser, lambda: step_of(browser) >= 2)
    play.click()
    assert play.get_attribute("aria-label") == "Play"
    at = step_of(browser)
    time.sleep(1)
    assert step_of(browser) == at < len(trace.steps)
    assert browser.execute_script(CANVAS) == [expected(trace, at)]
    scrub(browser, len(trace.steps) - 2)
    play.click()
    wait(browser, lambda: play.get_attribute("aria-label") == "Play")
    assert step_of(browser) == len(trace.steps)
    play.click()  # from the end it starts again
    wait(browser, lambda: 1 <= step_of(browser) < len(trace.steps))
    play.click()


def test_keys_step_and_play(opened: Opened) -> None:
    browser = opened([examples.example()])
    press(browser, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
    assert step_of(browser) == 2
    press(browser, Keys.END)
    assert step_of(browser) == 20
    press(browser, Keys.HOME, Keys.ARROW_LEFT)
    assert step_of(browser) == 0
    press(browser, " ")
    wait(browser, lambda: step_of(browser) >= 1)
    press(browser, " ")
    at = step_of(browser)
    time.sleep(0.9)
    assert step_of(browser) == at


def test_scrubber_answers_keys_and_mouse(opened: Opened) -> None:
    browser = opened([examples.example()])
    slider = browser.find_element("id", "scrub")
    slider.send_keys(Keys.ARROW_RIGHT)
    assert step_of(browser) == 1
    ActionChains(browser).move_to_element(slider).click().perform()
    assert step_of(browser) == 10
    assert slider.get_attribute("aria-valuetext") == "step 10 of 20"


def test_token_tells_place_probability_and_alternatives(opened: Opened) -> None:
    trace = examples.example()
    browser = opened([trace], step=20)
    step = trace.steps[6]
    cell = browser.find_elements("css selector", ".cell")[step.positions[0]]
    assert cell.find_element("css selector", ".place").text == "7"
    assert step.alternatives is not None
    rows = [(token.replace("▁", ""), math.exp(logp)) for token, logp in step.alternatives[0]]

    def check() -> None:
        tip = browser.find_element("id", "tip")
        assert tip.is_displayed()
        assert f"step 7 · position {step.positions[0] + 1}" in tip.text
        names = [node.text for node in tip.find_elements("css selector", ".rival")]
        values = [float(node.text.strip("< %")) / 100 for node in tip.find_elements("css selector", ".p")]
        assert names == [name for name, _ in rows]
        assert values == pytest.approx([p for _, p in rows], abs=0.0006)
        assert [n.text for n in tip.find_elements("css selector", ".chosen .rival")] == [rows[0][0]]

    ActionChains(browser).move_to_element(cell).perform()
    check()
    ActionChains(browser).move_to_element(browser.find_element("css selector", ".brand")).perform()
    assert not browser.find_element("id", "tip").is_displayed()
    browser.execute_script("document.querySelector('.cell').focus()")
    press(browser, *[Keys.ARROW_RIGHT] * step.positions[0])  # the arrow keys walk the tokens, not the steps
    check()
    assert step_of(browser) == 20
    press(browser, Keys.ESCAPE)
    assert not browser.find_element("id", "tip").is_displayed()


def test_tab_reaches_the_tokens(opened: Opened) -> None:
    browser = opened([examples.example()], step=20)
    for _ in range(6):
        press(browser, Keys.TAB)
        if "cell" in browser.switch_to.active_element.get_attribute("class").split():
            break
    label = browser.switch_to.active_element.get_attribute("aria-label")
    assert label.startswith("Two, position 1, written at step ")


def test_taken_back_tokens_are_shown(opened: Opened) -> None:
    trace = examples.example("mask-predict")
    browser = opened([trace], step=1)
    erased = trace.steps[0].erased
    cells = browser.find_elements("css selector", ".cell")
    assert [i for i, cell in enumerate(cells) if "erased" in cell.get_attribute("class").split()] == erased
    gone = cells[erased[0]].find_element("css selector", ".gone")
    assert gone.text == trace.steps[0].tokens[erased[0]].replace("▁", "")
    scrub(browser, 5)
    ActionChains(browser).move_to_element(cells[erased[0]]).perform()
    assert "took “" in browser.find_element("css selector", "#tip .past").text


def test_plots_have_a_mark_for_each_event(opened: Opened) -> None:
    browser = opened(examples.group(), step=3)
    order, logp = browser.find_elements("css selector", ".panel:nth-child(2) .plot")
    assert len(order.find_elements("css selector", ".dot")) == len(logp.find_elements("css selector", ".dot")) == 20
    assert len(order.find_elements("css selector", ".dot:not(.future)")) == 3
    xs = [float(d.get_attribute("cx")) for d in order.find_elements("css selector", ".dot")]
    steps = examples.example("easy-first").steps
    assert sorted(range(20), key=lambda t: xs[t]) == sorted(range(20), key=lambda t: steps[t].positions[0])
    assert len(browser.find_elements("css selector", "#compare .run")) == 4


def test_given_tokens_stay_and_source_is_optional(opened: Opened) -> None:
    whole = examples.example("left2right", source=None)
    trace = replace(whole, canvas=[examples.TARGET[0], *[None] * 19], steps=whole.steps[1:])
    browser = opened([trace])
    assert browser.execute_script(CANVAS) == [["Two", *[None] * 19]]
    assert not browser.find_element("id", "source").is_displayed()


def test_many_sentences_can_be_turned(opened: Opened) -> None:
    other = examples.example(target=["▁A", "▁dog", "."], source="Ein Hund.")
    browser = opened([*examples.group(), other])
    browser.find_element("id", "sentence-on").click()
    assert browser.find_element("id", "source-text").text == "Ein Hund."
    assert browser.execute_script(CANVAS) == [["A", "dog", "."]]
    browser.find_element("id", "sentence-on").click()
    assert len(browser.find_elements("css selector", ".panel")) == 4


def test_200_tokens(opened: Opened) -> None:
    trace = examples.example(target=examples.long(200))
    browser = opened([trace])
    for t in (0, 73, 200):
        scrub(browser, t)
        assert browser.execute_script(CANVAS) == [expected(trace, t)]
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_html_in_the_text_is_text(opened: Opened) -> None:
    hostile = "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>"
    trace = examples.example(target=examples.HOSTILE, source=hostile)
    step = trace.steps[0]
    alternatives = [[(step.tokens[0], -0.1), (hostile, -3.0)]]
    trace = replace(trace, recipe=hostile, steps=[replace(step, alternatives=alternatives), *trace.steps[1:]])
    browser = opened([trace, replace(trace, recipe="b")], step=5)
    shown = [pieces(examples.HOSTILE)[token].text for token in examples.HOSTILE]
    assert browser.execute_script(CANVAS) == [shown, shown]
    assert browser.find_element("id", "source-text").text == hostile
    cell = browser.find_elements("css selector", ".cell")[step.positions[0]]
    ActionChains(browser).move_to_element(cell).perform()
    assert hostile in browser.find_element("id", "tip").get_property("textContent")
    assert browser.title == "traces"
    assert not browser.find_elements("css selector", "img")
    assert len(browser.find_elements("css selector", "script")) == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_in_light_and_dark(opened: Opened, scheme: str) -> None:
    """Ink on its chip and small print on its ground have the contrast that WCAG asks for (4.5 to 1)."""
    browser = opened(examples.group(), step=20)
    media = {
        "features": [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
    }
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    colours = """
      const c = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
      const rgb = (node, name) => {
        c.fillStyle = getComputedStyle(node)[name];
        c.fillRect(0, 0, 1, 1);
        return [...c.getImageData(0, 0, 1, 1).data];
      };
      const panel = document.querySelector('.panel');
      return [...document.querySelectorAll('.panel:nth-child(2) .cell')].flatMap(cell => [
        [rgb(cell.querySelector('.ink'), 'color'), rgb(cell.querySelector('.box'), 'backgroundColor')],
        [rgb(cell.querySelector('.place'), 'color'), rgb(panel, 'backgroundColor')],
      ]).concat([
        [rgb(document.querySelector('.running em'), 'color'), rgb(panel, 'backgroundColor')],
        [rgb(document.querySelector('.legend'), 'color'), rgb(document.body, 'backgroundColor')],
      ])"""
    pairs = browser.execute_script(colours)
    assert (sum(pairs[-1][1][:3]) < 200) is (scheme == "dark")
    assert min(contrast(a, b) for a, b in pairs) >= 4.5


def contrast(a: list[int], b: list[int]) -> float:
    def light(rgb: list[int]) -> float:
        parts = [v / 255 / 12.92 if v <= 10 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in rgb[:3]]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((light(a), light(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_theme_can_be_switched(opened: Opened) -> None:
    browser = opened([examples.example()])
    ground = "return getComputedStyle(document.body).backgroundColor"
    before = browser.execute_script(ground)
    press(browser, "t")
    assert browser.execute_script(ground) != before
    browser.find_element("id", "theme").click()
    assert browser.execute_script(ground) == before


@pytest.mark.parametrize("target", [examples.TARGET, ["▁" + "Donaudampfschifffahrt" * 6, "▁x"]])
def test_fits_a_phone(opened: Opened, target: list[str]) -> None:
    browser = opened(examples.group(target=target), step=3)
    metrics = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    wait(browser, lambda: browser.execute_script("return innerWidth") == 360)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
    play = browser.find_element("id", "play").rect
    assert play["width"] >= 38 and play["height"] >= 38


@pytest.mark.parametrize("kind", ["svg", "png", "gif"])
def test_exports(opened: Opened, tmp_path: Path, kind: str) -> None:
    browser = opened([examples.example("constant-time"), examples.example("mask-predict")], step=3)
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path / "saved")}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    browser.find_element("css selector", "#export summary").click()
    browser.find_element("css selector", f"[data-export={kind}]").click()
    wait(browser, lambda: bool(list((tmp_path / "saved").glob(f"*.{kind}"))), 60)
    path = next((tmp_path / "saved").glob(f"*.{kind}"))
    assert step_of(browser) == 3
    if kind == "svg":
        texts = [node.text for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]
        canvas = [token for token in expected(examples.example("constant-time"), 3) if token]
        assert set(canvas) <= set(texts) and "Nachmittag" in texts
        return
    image = pytest.importorskip("PIL.Image").open(path)
    image.load()
    assert image.format == kind.upper()
    assert len(image.convert("RGB").resize((200, 200)).getcolors(40000)) > 20  # something is drawn
    if kind == "gif":
        assert image.n_frames == 6
        frames = []
        for i in range(6):
            image.seek(i)
            frames.append(image.convert("RGB").tobytes())
        assert len(set(frames)) == 6
