"""The cost of `attn heads --lines`: whole processes on short texts, against plain forward passes of their batches."""

import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.timing import Row, compared, process
from tests.real_models import MINILM

BAR = 1.3
_WORDS = """the river bank money water boat teller cash loan fish swim walk city street house garden quick brown
    fox"""
_PLAIN = """
import sys, torch
from transformers import AutoModel, AutoTokenizer
model, tokenizer = AutoModel.from_pretrained(sys.argv[1]).eval(), AutoTokenizer.from_pretrained(sys.argv[1])
texts = open(sys.argv[2]).read().splitlines()
with torch.no_grad():
    for start in range(0, len(texts), 8):
        model(**tokenizer(texts[start : start + 8], padding=True, return_tensors="pt"))
"""


def rows(repeats: int, *, quick: bool) -> Iterator[Row]:
    """1,000 lines of 10 to 20 tokens (300 if `quick`), all-MiniLM: a JSON line with all heads for each."""
    source, count = random.Random(0), 300 if quick else 1000
    model = str(MINILM)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "lines.txt")
        texts = [" ".join(source.choices(_WORDS.split(), k=source.randint(8, 18))) for _ in range(count)]
        file.write_text("\n".join(texts) + "\n")
        looking = [
            sys.executable,
            "-m",
            "attn_cli",
            "heads",
            "--lines",
            "--file",
            str(file),
            "-m",
            model,
            "--json",
        ]
        plain = process([sys.executable, "-c", _PLAIN, model, str(file)])
        seconds, ratios = compared(plain, {"heads --lines": process(looking)}, min(repeats, 3))
    for name, ratio in ratios.items():
        yield Row(f"{count:,} lines, all-MiniLM: {name}", "plain batched forward", seconds, ratio, BAR)
