"""Time and memory of `attn bisect` on a long text: `python -m tests.bisect.long [TOKENS] [LAYERS or FOLDER]`.

A model's folder, such as SmolLM2's, or so many layers of its size with random weights. The dump is of float32 and of
all stations; in the last layer scores have another scale; seven mistakes are tried, on all tokens, and the first that
fits is taken as the cause without more passes of the whole model. Printed: processor time until the first wrong
station, in plain passes, and of the longest steps; and the most memory over that of a plain pass. Each part can be run
by itself: `python -m tests.bisect.long part dump|plain|bisect DUMP TOKENS LAYERS`, and `part all` prints all figures.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.bisect.cases import source_of, stations_of
from tests.bisect.patched import seen

_TRIED = ("scale-missing", "scale-twice", "mask-missing", "causal-one-ahead", "rotary-missing", "norm-missing",
          "heads-joined-by-reshape")  # fmt: skip


def model_of(layers: str) -> Any:
    """The model of a folder, or one of SmolLM2's size with so many layers."""
    if not layers.isdigit():
        return LlamaForCausalLM.from_pretrained(layers, dtype=torch.float32, attn_implementation="sdpa").eval()
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=int(layers),
                         num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
                         tie_word_embeddings=True, attn_implementation="sdpa")  # fmt: skip
    return LlamaForCausalLM(config).eval()


def most_memory() -> float:
    """Of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write_dump(folder: str, ids: np.ndarray, layers: str) -> None:
    """The dump as a folder of arrays: each layer's file by its modules' names."""
    model = model_of(layers)
    last = model.model.layers[-1].self_attn
    last.scaling **= 2
    for name, x in seen(model, stations_of(model, ids), ids).items():
        if name != "logits":
            np.save(Path(folder, f"{name}.npy"), x)
    np.save(Path(folder, "tokens.npy"), ids)


def plain(ids: np.ndarray, layers: str) -> dict[str, float]:
    """Processor time of a pass, and the most memory."""
    model = model_of(layers)
    times = []
    with torch.no_grad():
        for _ in range(2 if layers.isdigit() else 1):
            start = time.process_time()
            model.model(input_ids=torch.from_numpy(ids)[None], use_cache=False)
            times.append(time.process_time() - start)
    return {"plain": min(times), "memory": most_memory()}


def bisected(folder: str, layers: str) -> dict[str, Any]:
    """Processor time until the first wrong station, that of every mistake, and the most memory."""
    from attn_cli.sources.dumps import open_dump
    from attn_cli.summaries.bisect import causes
    from attn_cli.summaries.bisect.answer import BisectRequest, bisect
    from attn_cli.summaries.bisect.comparison import HeldAgainst

    HeldAgainst.shortest = lambda self, first: None  # type: ignore[method-assign]
    causes._whole = lambda *_: (None, ())  # type: ignore[assignment]

    reference, dump = source_of(model_of(layers), "smollm2").reference(), open_dump(folder)
    every = reference.mistakes
    reference.mistakes = lambda layer: [one for one in every(layer) if one.name in _TRIED]  # type: ignore[method-assign]
    assert dump.tokens is not None
    steps: list[tuple[str, float]] = []
    answer = bisect(reference, dump.tokens, dump, BisectRequest(),
                    lambda words: steps.append((words, time.process_time())))  # fmt: skip
    end = time.process_time()
    times = [b - a for (_, a), (_, b) in zip(steps, [*steps[1:], ("", end)], strict=True)]
    passes = next(at for at, (words, _) in enumerate(steps) if not words.startswith("the "))
    assert answer.first is not None
    named = [(words, round(seconds, 2)) for (words, _), seconds in zip(steps, times, strict=True)]
    return {"first": f"{answer.first.placed.at}", "until first": sum(times[:passes]), "memory": most_memory(),
            "causes": [one.planted.name for one in (answer.cause.mistakes if answer.cause else ())],
            "steps": named}  # fmt: skip


def run_part(part: str, folder: str, tokens: int, layers: str) -> None:
    """Run one part, and keep what it said beside the dump."""
    ids = np.random.default_rng(0).integers(100, 40_000, tokens)
    if part == "dump":
        write_dump(folder, ids, layers)
        return
    result = plain(ids, layers) if part == "plain" else bisected(folder, layers)
    Path(folder, f"{part}.json").write_text(json.dumps(result))


def print_all(folder: str) -> None:
    """Print the figures of the parts."""
    before, found = (json.loads(Path(folder, f"{part}.json").read_text()) for part in ("plain", "bisect"))
    size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 2**20
    print(f"first wrong {found['first']}, named {found['causes']}")
    print(f"until the first wrong station: {found['until first'] / before['plain']:.2f} plain passes")
    print(f"memory: {found['memory'] - before['memory']:.0f} MB over a plain pass, the dump has {size:.0f} MB")
    for words, seconds in sorted(found["steps"], key=lambda step: -step[1])[:12]:
        print(f"  {seconds:6.2f} s  {words}")


def main() -> None:
    """Print the figures; each part runs in a process of its own."""
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["part"]:
        part, folder = sys.argv[2:4]
        print_all(folder) if part == "all" else run_part(part, folder, int(sys.argv[4]), sys.argv[5])
        return
    tokens, layers = (sys.argv[1], sys.argv[2]) if len(sys.argv) > 2 else ("4096", "2")
    with tempfile.TemporaryDirectory() as folder:
        for part in ("dump", "plain", "bisect"):
            command = [sys.executable, "-m", "tests.bisect.long", "part", part, folder, tokens, layers]
            subprocess.run(command, check=True)
        print_all(folder)


if __name__ == "__main__":
    main()
