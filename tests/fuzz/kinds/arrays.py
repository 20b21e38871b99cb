"""Queries, keys and values in archives and safetensors files with spoilt bytes, names, sizes and numbers."""

import io
import json
import random
from pathlib import Path

import numpy as np

from tests.fuzz.kinds.archives import spoilt_archive, spoilt_tensors
from tests.fuzz.kinds.case import Case, Make

_HEADS, _TOKENS, _SIZE = {"q": 4, "k": 2, "v": 2}, 6, 8


def arrays(shared: Path) -> Make:
    """An archive or a safetensors file of queries, keys and values, of which `attn compute` makes the output."""
    numbers = np.random.default_rng(3)
    good = {name: numbers.normal(size=(h, _TOKENS, _SIZE)).astype(np.float32) for name, h in _HEADS.items()}
    file = io.BytesIO()
    np.savez(file, **good)
    archive, tensors = file.getvalue(), _safetensors(good)

    def make(folder: Path, chance: random.Random) -> Case:
        (folder / "kept.npy").write_bytes(b"an output of before")
        name = chance.choice(("x.npz", "x.safetensors"))
        content = spoilt_archive(archive, chance) if name == "x.npz" else spoilt_tensors(tensors, chance)
        (folder / name).write_bytes(content)
        words = [word for side in good for word in (f"--{side}", f"{name}:{side}")]
        return Case(("compute", *words, "-o", "kept.npy", "--force"), kept=frozenset({"kept.npy"}))

    return make


def _safetensors(arrays: dict[str, np.ndarray]) -> bytes:
    """The bytes of a safetensors file, written by hand: that library's own writer needs torch or its NumPy half."""
    data, header = b"", dict[str, object]({"__metadata__": {"format": "pt"}})
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    written = json.dumps(header).encode()
    return len(written).to_bytes(8, "little") + written + data
