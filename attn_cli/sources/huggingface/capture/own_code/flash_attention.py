"""Calls of flash-attn's functions as attention calls, by the names of their arguments.

Releases 2 (`flash_attn`) and 3 (`flash_attn_interface`) name these alike: `flash_attn_interface.py` in
github.com/Dao-AILab/flash-attention, and in its folder hopper. Masks and windows are aligned to the bottom right.
"""

from collections.abc import Mapping
from typing import Any

import torch

from attn_cli.sources.huggingface.capture.layer_rule import TextSize
from attn_cli.sources.huggingface.capture.own_code.fused_call import FusedCall, Near, NotShownError, sizes_of, texts_of

PACKAGES = ("flash_attn", "flash_attn.flash_attn_interface", "flash_attn_interface")
NAMES = (
    "flash_attn_func", "flash_attn_qkvpacked_func", "flash_attn_kvpacked_func", "flash_attn_varlen_func",
    "flash_attn_varlen_qkvpacked_func", "flash_attn_varlen_kvpacked_func", "flash_attn_with_kvcache",
)  # fmt: skip
_OF_RULE = frozenset({"softmax_scale", "causal", "window_size", "softcap", "alibi_slopes"})
_OF_TEXTS = frozenset({"q", "k", "v", "kv", "qkv", "cu_seqlens", "cu_seqlens_q", "cu_seqlens_k",
                       "k_cache", "v_cache", "cache_seqlens", "cache_batch_idx"})  # fmt: skip
# How the kernel works and what it returns besides, and what the other arguments say, too.
_WITHOUT_EFFECT = frozenset({
    "dropout_p", "deterministic", "return_attn_probs", "return_softmax_lse", "num_splits", "max_seqlen", "max_seqlen_q",
    "max_seqlen_k", "rotary_interleaved", "pack_gqa", "sm_margin", "scheduler_metadata",
})  # fmt: skip


def flash_call(name: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> FusedCall:
    """A call of flash-attn's function `name` as a `FusedCall`: queries, keys, values and what makes weights of them.

    given     its arguments by name, those left out with their defaults
    defaults  of its parameters, by name

    Raises NotShownError for an argument that changes queries, keys or scores in the kernel.
    """
    for argument in given.keys() - _OF_RULE - _OF_TEXTS - _WITHOUT_EFFECT:
        value = given[argument]
        if isinstance(value, torch.Tensor) or value != defaults.get(argument):
            raise NotShownError(argument)
    if name == "flash_attn_with_kvcache":
        query, key, value, sizes = _with_cache(given)
    elif "varlen" in name:
        query, key, value, sizes = _of_packed_texts(given)
    else:
        query, key, value = _products(given)
        sizes = None
    left, right = (None if size is None or size < 0 else int(size) for size in given["window_size"])
    softcap = given.get("softcap") or 0.0
    return FusedCall(
        query, key, value, given["softmax_scale"], Near(left, 0 if given["causal"] else right), sizes,
        softcap if softcap > 0 else None, given.get("alibi_slopes"),
    )  # fmt: skip


def starts_of_texts(given: Mapping[str, Any]) -> list[int] | None:
    """The first row of each packed text (varlen), and the end of the last; None for a batch, which isn't packed.

    given  the call's arguments, by name
    """
    starts = given.get("cu_seqlens_q", given.get("cu_seqlens"))
    return None if starts is None else [int(start) for start in starts]


def _products(given: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values, each with an axis of heads."""
    if "qkv" in given:
        q, k, v = given["qkv"].unbind(-3)
        return q, k, v
    if "kv" in given:
        k, v = given["kv"].unbind(-3)
        return given["q"], k, v
    return given["q"], given["k"], given["v"]


Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, tuple[TextSize, ...] | None]


def _of_packed_texts(given: Mapping[str, Any]) -> Batch:
    """Texts that stand one after the other, as a batch."""
    query, key, value = _products(given)
    of_queries = starts_of_texts(given)
    of_keys = [int(start) for start in given.get("cu_seqlens_k", given.get("cu_seqlens"))]
    assert of_queries is not None
    sizes = sizes_of(of_queries, of_keys)
    return texts_of(query, of_queries), texts_of(key, of_keys), texts_of(value, of_keys), sizes


def _with_cache(given: Mapping[str, Any]) -> Batch:
    """Queries against the keys and values in a cache, and those that the call adds to it."""
    query, keys, values = given["q"], given["k_cache"], given["v_cache"]
    if (index := given.get("cache_batch_idx")) is not None:
        keys, values = keys[index.long()], values[index.long()]
    (b, n), lengths = query.shape[:2], given.get("cache_seqlens")
    if lengths is None:
        if given.get("k") is not None:
            raise NotShownError("k without cache_seqlens")
        return query, keys, values, None
    lengths = [lengths] * b if isinstance(lengths, int) else [int(length) for length in lengths]
    if given.get("k") is not None:
        cached = (keys, given["k"]), (values, given["v"])
        grown = [
            [torch.cat([old[at, :length], new[at].to(old.dtype)]) for at, length in enumerate(lengths)]
            for old, new in cached
        ]
    else:
        grown = [[x[at, :length] for at, length in enumerate(lengths)] for x in (keys, values)]
    of_keys = [0, *torch.tensor([len(text) for text in grown[0]]).cumsum(0).tolist()]
    sizes = sizes_of(range(0, (b + 1) * n, n), of_keys)
    key, value = (texts_of(torch.cat(texts), of_keys) for texts in grown)
    return query, key, value, sizes
