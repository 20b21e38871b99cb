"""Peak memory of a whole process that reads all layers and heads, over the plain forward pass."""

from collections.abc import Iterator
from statistics import median

from tests.benchmarks.timing import peak_mebibytes

_CODE = """
import sys, torch
from tests.benchmarks.models import model_of, tokens
from tests.benchmarks.capture import looked, plain
from attn_cli import HeadStatistics, TopKeys
n, what = int(sys.argv[1]), sys.argv[2]
model, ids = model_of("gpt2", n), tokens(n)
reducers = {"heads": lambda: [HeadStatistics()], "top": lambda: [TopKeys(5)]}
(plain(model, ids) if what == "plain" else looked(model, ids, reducers[what]))()
"""


def lines(*, quick: bool) -> Iterator[str]:
    """MiB over the plain pass at two lengths."""
    yield f"{'peak memory over the plain pass, GPT-2 size':<52} {'n':>8} {'plain MiB':>10} {'over MiB':>9}"
    for n in (4096,) if quick else (8192, 16384):
        # A peak depends on which threads happened to hold memory at once: each is the median of three processes.
        peaks = {
            what: median(peak_mebibytes(_CODE, str(n), what) for _ in range(3)) for what in ("plain", "heads", "top")
        }
        for what in ("heads", "top"):
            yield f"{what:<52} {n:8,} {peaks['plain']:10.0f} {peaks[what] - peaks['plain']:9.0f}"
