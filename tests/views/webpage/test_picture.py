"""The image that was read on the page: below the weights of the row that is asked, patch by patch."""

import re
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise, product
from pathlib import Path

import axe_core_python
import numpy as np
import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By

from attn_cli.picture import Box, ReadPicture
from attn_cli.prompt import Prompt, Token
from attn_cli.recording import Recording
from attn_cli.views.webpage.build import page_html
from attn_cli.views.webpage.contents import PagePicture
from tests.browser import Browser
from tests.views.webpage.recordings import CAUSAL, TEXT, layer_of, masked, recording_of, tokens_of

ROWS, COLUMNS, PATCH = 3, 4, 40
HEIGHT, WIDTH = ROWS * PATCH, COLUMNS * PATCH


def patches(first: int = 0) -> list[Token]:
    return [
        Token(first + at, f"r{row},c{column}", row=row, column=column,
              box=Box(row * PATCH, column * PATCH, (row + 1) * PATCH, (column + 1) * PATCH))
        for at, (row, column) in enumerate(product(range(ROWS), range(COLUMNS)))
    ]  # fmt: skip


def image() -> ReadPicture:
    return ReadPicture(np.full((HEIGHT, WIDTH, 3), 128, np.uint8), HEIGHT, WIDTH)


def seen(picture: ReadPicture | None) -> Recording:
    words = tokens_of(TEXT, special=False)
    tokens = (*patches(), *(replace(token, index=token.index + ROWS * COLUMNS) for token in words))
    layers = [layer_of(number, tokens, rule=masked(CAUSAL)) for number in range(2)]
    return recording_of(*layers, prompt=Prompt(TEXT, tokens, files={"image": "cat.png"}, picture=picture))


def middles(browser: Browser) -> np.ndarray:
    """The colour in the middle of each patch `[rows, columns, 3]`, as it is drawn."""
    colours = browser.run(
        "(() => { const canvas = document.querySelector('canvas.picture'), draw = canvas.getContext('2d');"
        " return canvas.grid.cells.map(([, left, top, right, bottom]) =>"
        " [...draw.getImageData((left + right) / 2 * canvas.zoom, (top + bottom) / 2 * canvas.zoom, 1, 1).data]"
        ".slice(0, 3)); })()"
    )
    return np.array(colours).reshape(ROWS, COLUMNS, 3)


def test_a_click_on_a_word_lays_its_weights_over_the_image(browser: Browser, tmp_path: Path) -> None:
    recording = seen(image())
    browser.open(page_html(recording), tmp_path)
    browser.requests()
    browser.run("follow('#l0h3q20')")
    assert browser.driver.find_elements(By.CSS_SELECTOR, "canvas.picture")
    found = []
    for word in (14, 21, 27):
        browser.driver.find_element(By.ID, f"t0-{word}").click()
        assert browser.run("look.q") == word
        weights = recording.layers[0].weights(3, slice(word, word + 1), slice(0, ROWS * COLUMNS))[0]
        drawn = middles(browser).astype(int)
        dark = -drawn.sum(axis=-1).reshape(-1)  # the image is grey, weights are dark
        assert dark.argmax() == weights.argmax()
        order = np.argsort(-weights)
        assert (np.diff(dark[order[weights[order] > 0.2 * weights.max()]]) < 0).all()
        caption = browser.run("document.querySelector('figcaption').textContent")
        total, most = map(float, re.fullmatch(r"image · ([\d.]+) on it, at most ([\d.]+)", caption).groups())  # type: ignore[union-attr]
        assert most == pytest.approx(weights.max(), abs=3e-3)
        assert weights[weights >= 0.002].sum() == pytest.approx(total, abs=5e-3)  # the page has no smaller ones
        found.append(drawn)
    assert any((one != other).any() for one, other in pairwise(found))
    assert browser.requests() == []
    assert [line for line in browser.log() if "getImageData" not in line] == []  # which this test reads pixels with
    browser.driver.execute_script(files(axe_core_python).joinpath("axe.min.js").read_text("utf-8"))
    results = browser.driver.execute_async_script("axe.run().then((done) => arguments[0](done.violations))")
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in results] == []


def test_a_click_on_a_patch_asks_what_it_attends_to(browser: Browser, tmp_path: Path) -> None:
    browser.open(page_html(seen(image())), tmp_path)
    canvas = browser.driver.find_element(By.CSS_SELECTOR, "canvas.picture")
    width, height = canvas.size["width"], canvas.size["height"]
    for row, column in ((2, 3), (1, 0)):
        x, y = ((column + 0.5) / COLUMNS - 0.5) * width, ((row + 0.5) / ROWS - 0.5) * height
        ActionChains(browser.driver).move_to_element_with_offset(canvas, round(x), round(y)).click().perform()
        assert browser.run("[look.q, look.held]") == [row * COLUMNS + column, True]
        assert browser.run("document.getElementById('asked').textContent") == (
            f"what {row * COLUMNS + column} r{row},c{column} attends to"
        )
    browser.run("turn()")
    assert browser.run("look.k") == 1 * COLUMNS
    assert browser.log() == []


@pytest.mark.parametrize("side", [160, 80, 50])
def test_a_page_has_means_of_the_pixels(side: int) -> None:
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (120, 160, 3), dtype=np.uint8)
    held = PagePicture(ReadPicture(pixels, 240, 320), side)
    step = -(-160 // side)
    assert held.pixels.shape == (-(-120 // step), -(-160 // step), 3)
    expected = pixels[:step, :step].astype(float).mean(axis=(0, 1))
    np.testing.assert_allclose(held.pixels[0, 0], expected, atol=0.5)
    last = pixels[(held.pixels.shape[0] - 1) * step :, (held.pixels.shape[1] - 1) * step :].astype(float)
    np.testing.assert_allclose(held.pixels[-1, -1], last.mean(axis=(0, 1)), atol=0.5)
    (grid,) = held.grids(patches())
    assert grid["box"] == [0, 0, WIDTH * 0.5 / step, HEIGHT * 0.5 / step]
    assert grid["cells"][5] == [5, *(edge * PATCH * 0.5 / step for edge in (1, 1, 2, 2))]


def test_a_small_page_leaves_the_image_out_before_the_text() -> None:
    random = np.random.default_rng(0)
    noise = ReadPicture(random.integers(0, 256, (640, 640, 3), dtype=np.uint8), 640, 640)
    recording = seen(noise)
    assert len(page_html(recording, 700_000)) > 400_000
    small = page_html(recording, 150_000)
    assert len(small) <= 150_000
