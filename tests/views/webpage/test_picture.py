"""The image that was read on the page: below the weights of the row that is asked, patch by patch."""

import re
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise, product
from pathlib import Path

import axe_core_python
import numpy as np
from selenium.webdriver.common.by import By

from attn_cli.prompt import Prompt, Token
from attn_cli.recording import Recording
from attn_cli.views.webpage.build import page_html
from tests.browser import Browser
from tests.views.webpage.recordings import CAUSAL, TEXT, layer_of, masked, recording_of, tokens_of

ROWS, COLUMNS, PATCH = 3, 4, 40
HEIGHT, WIDTH = ROWS * PATCH, COLUMNS * PATCH


def patches(first: int = 0) -> list[Token]:
    return [
        Token(first + at, f"r{row},c{column}", row=row, column=column)
        for at, (row, column) in enumerate(product(range(ROWS), range(COLUMNS)))
    ]


def image() -> np.ndarray:
    return np.full((HEIGHT, WIDTH), 128, np.uint8)


def seen(picture: np.ndarray | None) -> Recording:
    words = tokens_of(TEXT, special=False)
    tokens = (*patches(), *(replace(token, index=token.index + ROWS * COLUMNS) for token in words))
    layers = [layer_of(number, tokens, rule=masked(CAUSAL)) for number in range(2)]
    return recording_of(*layers, prompt=Prompt(TEXT, tokens, files={"image": "cat.png"}, picture=picture))


def middles(browser: Browser) -> np.ndarray:
    """The colour of each patch `[rows, columns, 3]`; white where it has none."""
    colours = browser.run(
        "[...document.querySelectorAll('.picture .token')].map((patch) => patch.style.backgroundColor)"
    )
    colours = [[int(part) for part in re.findall(r"\d+", colour)] or [255] * 3 for colour in colours]
    return np.array(colours).reshape(ROWS, COLUMNS, 3)


def test_a_click_on_a_word_lays_its_weights_over_the_image(browser: Browser, tmp_path: Path) -> None:
    recording = seen(image())
    browser.open(page_html(recording), tmp_path)
    browser.requests()
    browser.run("follow('#l0h3q20')")
    assert browser.driver.find_elements(By.CSS_SELECTOR, ".picture canvas")
    found = []
    for word in (14, 21, 27):
        browser.driver.find_element(By.ID, f"t0-{word}").click()
        assert browser.run("look.q") == word
        weights = recording.layers[0].weights(3, slice(word, word + 1), slice(0, ROWS * COLUMNS))[0]
        drawn = middles(browser).astype(int)
        dark = -drawn.sum(axis=-1).reshape(-1)
        assert dark.argmax() == weights.argmax()
        order = np.argsort(-weights)
        assert (np.diff(dark[order[weights[order] > 0.2 * weights.max()]]) < 0).all()
        found.append(drawn)
    assert any((one != other).any() for one, other in pairwise(found))
    assert browser.requests() == []
    assert [line for line in browser.log() if "getImageData" not in line] == []  # which this test reads pixels with
    browser.driver.execute_script(files(axe_core_python).joinpath("axe.min.js").read_text("utf-8"))
    results = browser.driver.execute_async_script("axe.run().then((done) => arguments[0](done.violations))")
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in results] == []
