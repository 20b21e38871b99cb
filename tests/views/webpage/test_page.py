"""The page in a real Chromium: numbers, keys and themes, narrow and in frames, hostile text, no script at all."""

from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import axe_core_python
import numpy as np
import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from attn_cli.prompt import Prompt, Token
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.summaries.answers.kinds import recorded_kinds
from attn_cli.summaries.standing_out import standing_out
from attn_cli.text import visible
from attn_cli.views.webpage.build import page_html
from tests.browser import Browser
from tests.views.test_hostile import HOSTILE
from tests.views.webpage.recordings import (
    CAUSAL,
    TEXT,
    causal_model,
    encoder_decoder,
    layer_of,
    masked,
    recording_of,
    tokens_of,
    told,
    weights_alone,
    with_generated,
    without_softmax,
)

CLOSE = 0.000501  # of three digits
SCREEN = ("<pre>the <span class=r1>screen</span> &lt;b&gt;</pre>", ".r1 { color: #00f }")


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Iterator[Browser]:
    """A causal model's page; whatever a test does there, the console stays empty."""
    browser.open(page_html(causal_model(), screen=SCREEN), tmp_path)
    yield browser
    assert browser.log() == []


def at(browser: Browser) -> dict[str, Any]:
    look: dict[str, Any] = browser.run("look")
    return {name: look[name] for name in ("at", "head", "q", "k", "turned", "held")}


def go(browser: Browser, address: str) -> None:
    browser.run("follow(arguments[0])", address)


def rows(browser: Browser) -> list[list[str]]:
    texts: list[list[str]] = browser.run(
        "[...document.querySelectorAll('#rows tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    return texts


def dense(browser: Browser, layer: RecordedLayer) -> np.ndarray:
    """The weights of the open head `[n, m]` as the page has them, by its rows and by its columns."""
    weights = np.zeros((2, layer.n, layer.m))
    for query, row in enumerate(browser.run("cells.rows")):
        for key, weight in row:
            weights[0, query, key] = weight
    for key, column in enumerate(browser.run("[...Array(cells.m).keys()].map(columnOf)")):
        for query, weight in column:
            weights[1, query, key] = weight
    assert np.array_equal(*weights)
    return weights[0]


def text_of(browser: Browser, name: str) -> str:
    return str(browser.run("document.getElementById(arguments[0]).textContent", name))


def test_it_opens_with_one_request_and_an_empty_console(shown: Browser) -> None:
    asked = [url for url in shown.requests() if url != "about:blank"]
    assert len(asked) == 1 and asked[0].startswith("file:") and asked[0].endswith("page.html")
    script = "addEventListener('load', () => (window.early = document.documentElement.dataset.ready))"
    shown.command("Page.addScriptToEvaluateOnNewDocument", source=script)
    shown.driver.refresh()
    assert shown.run("window.early") == "yes"  # so that it can be printed
    assert text_of(shown, "about") == f"made-up · float32 · 3 layers, 12 heads · {len(tokens_of(TEXT))} tokens"
    note = text_of(shown, "note")
    assert "every weight of 0.0005 and more" in note and "holds the text" in note
    assert shown.run("document.querySelectorAll('#heads button').length") == 12


@pytest.mark.parametrize(
    "made", [causal_model, encoder_decoder, with_generated, without_softmax, weights_alone], ids=lambda x: x.__name__
)
def test_every_head_has_the_recordings_numbers(made: Any, browser: Browser, tmp_path: Path) -> None:
    recording: Recording = made()
    browser.open(page_html(recording), tmp_path)
    for number, layer in enumerate(recording.layers):
        for head in range(layer.h):
            browser.driver.execute_async_script("open(arguments[0], arguments[1]).then(arguments[2])", number, head)
            assert at(browser)["at"] == number and at(browser)["head"] == head
            expected = layer.weights(head, slice(None), slice(None))
            np.testing.assert_allclose(dense(browser, layer), expected, atol=CLOSE)
            allowed = browser.run("[...Array(cells.n).keys()].map((q) => mask[3 * q + 2])")
            assert allowed == layer.allowed(slice(None), slice(None)).sum(axis=1).tolist()
    assert browser.log() == []


def test_a_row_says_its_weights_and_what_is_left_out(browser: Browser, tmp_path: Path) -> None:
    browser.open(page_html(with_generated()), tmp_path, "#l0h3q12")
    weights, table = with_generated().layers[0].weights(3, slice(12, 13), slice(None))[0], rows(browser)
    order = np.argsort(-weights)[:8]
    assert [float(row[1]) for row in table[:8]] == pytest.approx(weights[order], abs=0.001)
    assert [row[0] for row in table[8:]] == ["5 more keys", "learned sink"]
    left = weights.sum() - weights[order].sum(), 1 - weights.sum()
    assert [float(row[1]) for row in table[8:]] == pytest.approx(left, abs=0.005)
    browser.driver.find_element(By.XPATH, "//td/button[text()='5 more keys']").click()
    assert [int(row[0].split()[0]) for row in rows(browser)[:-1]] == np.argsort(-weights)[:13].tolist()


def test_the_story_s_words_open_the_heads_that_bring_them(browser: Browser, tmp_path: Path) -> None:
    browser.open(page_html(told(causal_model()), screen=SCREEN), tmp_path)
    assert at(browser) == {"at": 1, "head": 2, "q": 19, "k": 5, "turned": False, "held": False}
    lines = browser.run("[...document.querySelectorAll('#story h1, #story p')].map((line) => line.innerText)")
    assert [" ".join(line.split()) for line in lines[:3]] == [
        'next "." 43% needs "river" 5 "bank" 6',
        '"river" 5 -3.00 bits without it, brought by 1.2',
        '"bank" 6 -1.00 bits without it, brought by 2.0',
    ]
    assert browser.run("[...document.querySelectorAll('#heads .told')].map((x) => x.cell)") == [[2, 0], [1, 2]]
    assert browser.run("document.querySelectorAll('h1 [aria-current=true], p [aria-current=true]').length") == 1
    browser.driver.find_element(By.XPATH, "//button[text()='\"bank\" 6']").click()
    browser.until("look.at === 2")
    assert (at(browser)["head"], at(browser)["q"], at(browser)["k"]) == (0, 19, 6)
    assert text_of(browser, "does").startswith("spreads")  # no word of a weight that reads 0.00


@pytest.mark.parametrize(
    ("typed", "found", "query"),
    [
        ("cold", "1 of 1 place", 15),
        ("THE BANK", "1 of 1 place", 9),
        ("7", "1 of 1 place", 7),
        ("zebra", "not in this text", 3),
    ],
)
def test_find_tells_where_or_that_it_is_nowhere(typed: str, found: str, query: int, shown: Browser) -> None:
    go(shown, "#l0h1q3")
    shown.press("/", "left over", Keys.ENTER, "/", typed, Keys.ENTER)
    assert (text_of(shown, "found"), at(shown)["q"]) == (found, query)


def test_keys_do_what_they_do_in_the_terminal(shown: Browser) -> None:
    go(shown, "#l0h1q5k3")
    assert at(shown) == {"at": 0, "head": 1, "q": 5, "k": 3, "turned": False, "held": True}
    for keys, change in {
        Keys.ARROW_UP: {"q": 4}, Keys.ARROW_LEFT: {"k": 2}, Keys.ARROW_DOWN: {"q": 5}, Keys.ARROW_RIGHT: {"k": 3},
        Keys.ESCAPE: {"held": False}, Keys.ENTER: {"held": True},
    }.items():  # fmt: skip
        before = at(shown)
        shown.press(keys)
        assert at(shown) == before | change
    for key, head in {"]": (0, 2), "[": (0, 1), "}": (1, 1), "{": (0, 1)}.items():
        shown.press(key)
        shown.until(f"look.at === {head[0]} && look.head === {head[1]}")
    shown.press("v")
    assert at(shown)["turned"] and "what reads 5 river" in text_of(shown, "asked")
    shown.press("v")
    assert not at(shown)["turned"]
    for is_open in (True, False):
        shown.press("?")
        assert shown.run("document.getElementById('keys').open") is is_open


def test_the_mouse_shows_a_click_holds(shown: Browser) -> None:
    go(shown, "#l1h1q0")

    def over(q: int, k: int) -> ActionChains:
        cell = shown.run("[...document.querySelectorAll('#map i')][arguments[0]]", 20 * q + k)
        return ActionChains(shown.driver, duration=0).move_to_element(cell)

    over(7, 4).perform()
    assert (at(shown)["q"], at(shown)["k"], at(shown)["held"]) == (7, 4, False)
    assert text_of(shown, "live").startswith("query 7 , → key 4 the · weight ")
    over(9, 2).click().perform()
    assert (at(shown)["q"], at(shown)["k"], at(shown)["held"]) == (9, 2, True)
    over(3, 1).perform()
    assert at(shown)["q"] == 9
    shown.press(Keys.ESCAPE)
    span = shown.driver.find_element(By.ID, "t0-6")
    ActionChains(shown.driver, duration=0).move_to_element(span).perform()
    assert at(shown)["q"] == 6
    assert shown.run("getComputedStyle(document.getElementById('t0-6')).outlineStyle") == "solid"


def test_an_address_is_a_place_and_a_place_an_address(shown: Browser) -> None:
    for address in ("#l2h3q9", "#l2h3q9k7", "#l0h0k4v", "#l0h0q9k4v"):
        go(shown, address)
        shown.until(f"location.hash.startsWith('{address}')")
    assert at(shown)["turned"]
    before = at(shown)
    for nothing in ("#l9h0", "#l0h99", "#<script>", "#l0", ""):
        go(shown, nothing)
        assert at(shown) == before
    shown.open(Path(shown.driver.current_url.partition("#")[0].removeprefix("file://")), address="#l1h2q8")
    assert (at(shown)["at"], at(shown)["head"], at(shown)["q"]) == (1, 2, 8)
    shown.run("(location.hash = '#l0h3q999', 0)")
    shown.until("look.head === 3")
    assert at(shown)["q"] == shown.run("cells.n - 1")
    go(shown, "#l0h0k4v")
    expected = causal_model().layers[0].weights(0, slice(None), slice(4, 5))[:, 0]
    assert at(shown)["q"] == expected.argmax()


@pytest.mark.parametrize(("theme", "width"), [("light", 1400), ("dark", 400)])
def test_nothing_is_inaccessible(theme: str, width: int, browser: Browser, tmp_path: Path) -> None:
    browser.resize(width)
    browser.prefer(theme)
    browser.open(page_html(encoder_decoder(), screen=SCREEN), tmp_path)
    axe = files(axe_core_python).joinpath("axe.min.js").read_text("utf-8")
    browser.driver.execute_script(axe)
    for address in ("#encoder:l0h3q4", "#cross:l0h2q1k3v"):
        go(browser, address)
        found = browser.driver.execute_async_script("axe.run().then((done) => arguments[0](done.violations))")
        problems = [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found]
        assert problems == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.log() == []


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_text(name: str, browser: Browser, tmp_path: Path) -> None:
    text = f"{HOSTILE[name]} </script><script>owned=1</script><img src=x onerror=owned=1> \ud800"
    tokens = tokens_of(text)
    browser.open(page_html(recording_of(layer_of(0, tokens), text=text), screen=SCREEN), tmp_path)
    said = browser.run("[...document.querySelectorAll('.token')].map((each) => each.textContent)")
    assert said == [visible(token.text) for token in tokens]
    browser.press("/", "script", Keys.ENTER)
    assert browser.run("typeof owned") == "undefined"
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert "script" in text_of(browser, "asked")
    assert browser.log() == []


def test_without_a_script_the_screen_is_there(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_bytes(page_html(causal_model(), screen=SCREEN))
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.driver.get((tmp_path / "page.html").as_uri())
        screen = browser.driver.find_element(By.TAG_NAME, "pre")
        assert screen.text == "the screen <b>" and screen.is_displayed()
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)


def test_blocks_have_the_largest_weights(browser: Browser, tmp_path: Path) -> None:
    text = " ".join(f"w{at}" for at in range(150))
    layer = layer_of(0, tokens_of(text, special=False), rule=masked(CAUSAL))
    browser.open(page_html(recording_of(layer, text=text)), tmp_path, "#l0h3q100")
    found = browser.run("pooled()")
    blocks = np.array(found["values"]).reshape(50, 50)
    assert (found["a"], found["b"], found["rows"], found["keys"]) == (3, 3, 50, 50)
    weights = layer.weights(3, slice(None), slice(None))
    kept = np.where(weights >= np.sort(weights, axis=1)[:, -8:-7], weights, 0)
    expected = np.where(kept >= 0.0005, kept, 0).reshape(50, 3, 50, 3).max(axis=(1, 3))
    assert np.array_equal(blocks < 0, np.triu(np.ones((50, 50), bool), 1))
    np.testing.assert_allclose(np.maximum(blocks, 0), expected, atol=CLOSE)
    browser.press("z")
    near = browser.run("pooled()")
    assert (near["a"], near["rows"], near["q"]) == (1, 32, 84)
    block = np.array(near["values"]).reshape(32, 32)
    np.testing.assert_allclose(np.maximum(block, 0), kept[84:116, near["k"] :][:, :32], atol=CLOSE)


def test_the_page_opens_at_the_head_that_stands_out_and_says_what_it_does(browser: Browser, tmp_path: Path) -> None:
    recording = causal_model()
    outs = standing_out(recorded_kinds(recording))
    assert len(outs) > 1
    browser.open(page_html(recording), tmp_path)
    for number, out in enumerate(outs[:3]):
        if number:
            buttons = "document.querySelectorAll('#families button')"
            browser.run(f"[...{buttons}].find((x) => x.textContent === '{out.name} {out.weight:.2f}').click()")
            browser.until(f"document.getElementById('name').textContent === 'head {out.name}'")
        assert text_of(browser, "does") == out.sentence
        assert out.strongest is not None
        assert [at(browser)[name] for name in ("at", "head", "q", "k")] == [out.call, out.at, *out.strongest[:2]]
        marked = "[...document.querySelectorAll('#families [aria-current=true]')].map((x) => x.textContent)"
        assert browser.run(marked) == [f"{out.name} {out.weight:.2f}"]
    letters = set(browser.run("[...document.querySelectorAll('#heads button')].map((x) => x.textContent)"))
    assert letters - {""} <= set(text_of(browser, "families").split())  # so that each says what it stands for


ROWS, COLUMNS, PATCH = 5, 6, 40


def seen() -> Recording:
    places = product(range(ROWS), range(COLUMNS))
    patches = [Token(at, f"r{row},c{column}", row=row, column=column) for at, (row, column) in enumerate(places)]
    words = (replace(token, index=token.index + len(patches)) for token in tokens_of(TEXT, special=False))
    layer = layer_of(0, (*patches, *words), rule=masked(CAUSAL))
    picture = np.full((ROWS * PATCH, COLUMNS * PATCH, 3), (200, 128, 60), np.uint8)
    return recording_of(layer, prompt=Prompt(TEXT, layer.queries, files={"image": "cat.png"}, picture=picture))


def test_a_click_on_a_word_lights_the_whole_image_by_its_weights(browser: Browser, tmp_path: Path) -> None:
    recording = seen()
    browser.open(page_html(recording), tmp_path)
    browser.run("follow('#l0h3q40')")
    pixel = "[...document.querySelector('.picture canvas').getContext('2d').getImageData(5, 7, 1, 1).data]"
    assert browser.run(pixel) == [200, 128, 60, 255]
    for word in (32, 41, 47):
        browser.driver.find_element(By.ID, f"t0-{word}").click()
        weights = recording.layers[0].weights(3, slice(word, word + 1), slice(0, ROWS * COLUMNS))[0]
        veils = "[...document.querySelectorAll('.picture .token')].map((x) => getComputedStyle(x).backgroundColor)"
        alphas = [float(veil.strip(")").rpartition("/")[2]) for veil in browser.run(veils)]
        np.testing.assert_allclose(alphas, 0.8 * (1 - (weights / weights.max()) ** 0.6), atol=0.05)
    assert [line for line in browser.log() if "getImageData" not in line] == []  # which this test reads pixels with
    browser.driver.execute_script(files(axe_core_python).joinpath("axe.min.js").read_text("utf-8"))
    results = browser.driver.execute_async_script("axe.run().then((done) => arguments[0](done.violations))")
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in results] == []
