"""attn compute as a whole process and as a kernel, against torch's SDPA."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.plan import plan_of
from attn_cli.kernel.definition.mask import Mask, causal
from attn_cli.kernel.definition.rule import Rule
from tests.tools.benchmarks.timing import Row, compared, process

_SDPA = """
import sys, numpy as np, torch
folder, causal = sys.argv[1], sys.argv[2] == "causal"
q, k, v = (torch.from_numpy(np.load(f"{folder}/{name}.npy"))[None, None] for name in "qkv")
output = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
np.save(f"{folder}/torch.npy", output[0, 0].numpy())
"""


def rows(repeats: int, *, quick: bool) -> Iterator[Row]:
    """Whole processes, files in and out; then the kernel alone."""
    n = 4096 if quick else 16384
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        for name in "qkv":
            np.save(Path(folder) / f"{name}.npy", rng.normal(size=(n, 64)).astype(np.float32))
        files = [part for name in "qkv" for part in (f"--{name}", f"{folder}/{name}.npy")]
        for mask in ("none", "causal"):
            command = [sys.executable, "-m", "attn_cli", "compute", *files, "--mask", mask, "-q"]
            seconds, ratios = compared(
                process([sys.executable, "-c", _SDPA, folder, mask]),
                {"attn": process([*command, "-o", f"{folder}/attn.npy", "--force"])},
                repeats,
            )
            yield Row(
                f"attn compute, n = {n:,}, mask {mask}", "python -c with torch's SDPA", seconds, ratios["attn"], 1.0
            )
    yield from _kernel(repeats)


def _kernel(repeats: int) -> Iterator[Row]:
    """The bands of 8 heads of NumPy arrays, output kept, against torch's SDPA of the same numbers as tensors."""
    h, n, d = 8, 4096, 64
    q, k, v = (np.random.default_rng(0).normal(size=(h, n, d)).astype(np.float32) for _ in "qkv")
    tensors = [torch.from_numpy(x)[None] for x in (q, k, v)]
    for is_causal, mask in ((False, Mask()), (True, causal())):
        rule = Rule(d**-0.5, mask=mask)

        def walk(rule: Rule = rule) -> None:
            output = np.empty((h, n, d), np.float32)
            for band in bands(q, k, v, rule, plan_of(q, k, rule, in_parts=True)):
                output[band.heads, band.start : band.stop] = band.output

        def sdpa(is_causal: bool = is_causal) -> None:
            torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=is_causal)

        seconds, ratios = compared(sdpa, {"walk": walk}, repeats)
        yield Row(f"NumPy kernel, 8 heads, n = 4,096, {mask}", "torch's SDPA", seconds, ratios["walk"], 1.3)
