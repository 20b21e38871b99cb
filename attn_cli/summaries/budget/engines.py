"""A plan as inference engines read it, and in a sentence what an engine can't do.

By their own documentation and code, read in November 2026:

- DuoAttention, `load_attn_pattern` in duo_attn/utils.py: a folder with `full_attention_heads.tsv`, a row a layer and a
  column a key head, numbers from 0 to 1 between tabs, and `config.json` with `sink_size` and `recent_size`. Of these
  `sparsify_attention_heads` windows the lowest share, `sparsity`; it compares that number even where a threshold is
  given, so a threshold alone is a TypeError.
- kvpress 0.5, `DuoAttentionPress` in kvpress/presses/duo_attention_press.py: `load_attention_pattern(model)` returns
  sink size, recent size and head scores `[layers, key heads]`, of which the lowest `head_compression_ratio` are
  windowed. It knows six models and has no argument for a pattern, so it is replaced.
- llama.cpp, tools/server/README.md: `--cache-type-k` and `--cache-type-v` take f32, f16, bf16, q8_0, q4_0, q4_1,
  iq4_nl, q5_0 and q5_1, one for all layers each; a quantised V needs flash attention.
- vLLM, `CacheConfig` in vllm/config/cache.py: `kv_cache_dtype` (fp8_e4m3, fp8_e5m2 and others) for keys and values
  alike, and `kv_cache_dtype_skip_layers`, numbers of layers that keep the model's precision; `sliding_window` is the
  model's own.
"""

import json
from collections.abc import Iterator

import numpy as np

from attn_cli.selection import ranges
from attn_cli.summaries.budget.answer import Budget

_GGUF = ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1")
_FP8 = ("fp8_e4m3", "fp8_e5m2")
_DUO_ATTENTION = (
    "DuoAttention, in this folder:",
    "  import json",
    "  from duo_attn.utils import load_attn_pattern, sparsify_attention_heads",
    '  heads, sink_size, recent_size = load_attn_pattern(".")',
    '  share = json.load(open("config.json"))["windowed_share"]',
    "  heads, share = sparsify_attention_heads(heads, sparsity=share)",
)
_KVPRESS = (
    "kvpress, in this folder:",
    "  import json, numpy",
    "  from kvpress import DuoAttentionPress",
    '  plan = json.load(open("kvpress.json"))',
    '  pattern = plan["sink_size"], plan["recent_size"], numpy.array(plan["head_scores"])',
    "  DuoAttentionPress.load_attention_pattern = staticmethod(lambda model: pattern)",
    '  press = DuoAttentionPress(head_compression_ratio=plan["head_compression_ratio"])',
)
_KEPT = 0.5  # of head scores, from which on a head keeps its whole cache
_DIGITS = 6


def engine_files(budget: Budget) -> dict[str, str]:
    """What inference engines read of a plan: the texts of files by name.

    `engines.txt` (options of llama.cpp and others) always; the others, for DuoAttention and kvpress, only where the
    plan windows single key heads, as many in every layer.
    """
    files = {"engines.txt": "".join(f"{line}\n" for line in _lines(budget))}
    scores = head_scores(budget)
    if scores is None:
        return files
    sizes = {"sink_size": budget.window.first, "recent_size": budget.window.size}
    ratio = float((scores < _KEPT).mean())
    press = {"head_compression_ratio": ratio, **sizes, "head_scores": scores.tolist()}
    rows = ("\t".join(f"{score:.{_DIGITS}f}" for score in row) for row in scores.tolist())
    return files | {
        "full_attention_heads.tsv": "".join(f"{row}\n" for row in rows),
        "config.json": json.dumps(sizes | {"windowed_share": ratio}) + "\n",
        "kvpress.json": json.dumps(press) + "\n",
    }


def head_scores(budget: Budget) -> np.ndarray | None:
    """For each key head `[layers, key heads]` a number from 0 to 1: engines window those below 0.5.

    These are the heads that the budget's plan windows; on either side of 0.5, the higher, the larger the rise of
    -log2 p with that window alone. None without a plan, and unless the loss with a window was measured for every
    single key head, of which each layer has as many.
    """
    windows = [(priced, taken) for priced, taken in budget.planned if priced.unit.taken == "window"]
    if not windows or any(priced.key_head is None or taken is None for priced, taken in windows):
        return None
    if budget.key_heads % budget.layers or len(windows) != budget.key_heads:
        return None
    order = sorted(range(len(windows)), key=lambda at: (not windows[at][1], windows[at][0].bits))
    windowed = sum(bool(taken) for _, taken in windows)
    scores = np.empty(len(windows))
    for rank, at in enumerate(order):
        is_kept = rank >= windowed
        of = (rank - windowed + 1) / (len(windows) - windowed) if is_kept else rank / max(windowed, 1)
        scores[at] = round(_KEPT * (1 + of) if is_kept else (_KEPT - 0.01) * of, _DIGITS)
    return scores.reshape(budget.layers, -1)


def _lines(budget: Budget) -> Iterator[str]:
    """Options to paste, and what can't be said in options."""
    if budget.of("window"):
        if head_scores(budget) is not None:
            yield from (*_DUO_ATTENTION, *_KVPRESS)
        else:
            yield "DuoAttention, kvpress: they window single key heads, as many in every layer; this plan has others"
        yield "llama.cpp, vLLM: no option windows single key heads; a sliding window is the model's own"
    if budget.keys or budget.values:
        yield from _llama_cpp(budget)
        yield from _vllm(budget)


def _llama_cpp(budget: Budget) -> Iterator[str]:
    """llama.cpp rounds keys of all layers alike, and values."""
    options = []
    for side, option, name in (("keys", "k", budget.keys), ("values", "v", budget.values)):
        whole = _left_whole(budget, side)
        if not name:
            continue
        if name not in _GGUF:
            yield f"llama.cpp: --cache-type-{option} has no {name}"
        elif whole:
            yield (f"llama.cpp: --cache-type-{option} is for all layers, and the plan keeps the {side} of layers "
                   f"{ranges(whole)} whole")  # fmt: skip
        else:
            options.append(f"--cache-type-{option} {name}")
    if options:
        flash = " --flash-attn on" if any("-v" in option for option in options) else ""
        yield f"llama.cpp: {' '.join(options)}{flash}"


def _vllm(budget: Budget) -> Iterator[str]:
    """vLLM rounds keys and values alike, but for layers that it is told to skip."""
    if budget.keys != budget.values or budget.keys not in _FP8:
        yield f"vLLM: --kv-cache-dtype is for keys and values alike, of {', '.join(_FP8)}"
        return
    whole = sorted({*_left_whole(budget, "keys"), *_left_whole(budget, "values")})
    skipped = f" --kv-cache-dtype-skip-layers {' '.join(map(str, whole))}" if whole else ""
    yield f"vLLM: --kv-cache-dtype {budget.keys}{skipped}"


def _left_whole(budget: Budget, side: str) -> list[int]:
    """The layers whose keys, or values, the plan doesn't round."""
    return [priced.place.layer for priced, taken in budget.planned if priced.unit.taken == side and not taken]
