"""attn compute as a whole process and as a kernel, against torch's SDPA."""

import sys
import tempfile
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.kernel.definition.mask import Mask, causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.wanted import Wanted
from attn_cli.prompt import Token
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
        for name in "qkv":
            numbers = np.random.default_rng(ord(name)).normal(size=(n, 64)).astype(np.float32)
            np.save(f"{folder}/{name}.npy", numbers)
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


def _kernel(repeats: int, h: int = 8, n: int = 4096, d: int = 64) -> Iterator[Row]:
    """The output of h heads of NumPy arrays, as attn compute makes it, against torch's SDPA of the same as tensors."""
    q, k, v = (np.random.default_rng(0).normal(size=(h, n, d)).astype(np.float32) for _ in "qkv")
    place, tokens = Place(0, "", tuple(range(h)), tuple(range(h))), (Token(0, ""),) * n
    tensors = [torch.from_numpy(x)[None] for x in (q, k, v)]
    for is_causal, mask in ((False, Mask()), (True, causal())):
        call = AttentionCall(q, k, v, Rule(d**-0.5, mask=mask), place, tokens, tokens)
        sdpa = partial(torch.nn.functional.scaled_dot_product_attention, *tensors, is_causal=is_causal)
        seconds, ratios = compared(sdpa, {"walk": partial(call.row_stats, Wanted(output=True))}, repeats)
        yield Row(f"NumPy kernel, 8 heads, n = 4,096, {mask}", "torch's SDPA", seconds, ratios["walk"], 1.3)
