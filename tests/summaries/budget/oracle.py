"""A model run whole in plain torch, its cache changed by dense masks and other people's quantisers: shares no code.

Attention is computed by one function that is put in the place of transformers' eager one, over whole n x n matrices.
"""

from collections.abc import Sequence

import gguf
import numpy as np
import torch
from gguf.quants import dequantize, quantize
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

from attn_cli.model.kv_cache import CacheChange

_RECENT = _GROUP = 32


def small_llama(seed: int = 0, *, layers: int = 2) -> LlamaForCausalLM:
    """A Llama with random weights large enough to attend sharply: 4 heads of 32, 2 key heads, 61 words."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=61, hidden_size=128, intermediate_size=96, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, max_position_embeddings=4096, initializer_range=0.2,
        attn_implementation="eager",
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def bits_lost(model: LlamaForCausalLM, ids: Sequence[int], first: int, changes: Sequence[CacheChange]) -> float:
    """Bits a token that the tokens from `first + 1` on lose when rows from `first` on read a changed cache."""
    before, after = (_bits(model, ids, first, these) for these in ((), changes))
    return after - before


def _bits(model: LlamaForCausalLM, ids: Sequence[int], first: int, changes: Sequence[CacheChange]) -> float:
    usual = modeling_llama.eager_attention_forward

    def attend(
        module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: object, **options: object
    ) -> tuple[torch.Tensor, None]:
        own = [change for change in changes if change.layer == module.layer_idx]
        plain = _attention(query[0], key[0], value[0], ())
        changed = _attention(query[0], key[0], value[0], own)
        output = torch.cat([plain[:, :first], changed[:, first:]], dim=1)
        return output.transpose(0, 1)[None].contiguous(), None

    modeling_llama.eager_attention_forward = attend
    try:
        with torch.no_grad():
            logits = model(torch.tensor([list(ids)])).logits[0].double()
    finally:
        modeling_llama.eager_attention_forward = usual
    log_p = logits[first:-1].log_softmax(-1)
    return float(-log_p[range(len(log_p)), list(ids[first + 1 :])].mean() / np.log(2))


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, changes: Sequence[CacheChange]
) -> torch.Tensor:
    """The output `[h, n, e]` of one text; every key head is repeated for its query heads."""
    h, n, d = query.shape
    group = h // key.shape[0]
    outputs = []
    for head in range(h):
        own = [x for x in changes if x.key_heads is None or head // group in x.key_heads]
        k, v = key[head // group], value[head // group]
        place, past = torch.arange(n)[:, None], torch.arange(n)[None]
        seen = past <= place
        scores = query[head] @ k.T / d**0.5
        output_of_recent, recent_values = None, None
        for change in own:
            if change.window is not None:
                seen &= (place - past < change.window) | (past < change.first)
            if change.keys:
                rounded = query[head] @ _keys(k, change.keys).T / d**0.5
                whole = past >= place // _GROUP * _GROUP if change.keys.startswith("kivi") else torch.tensor(False)
                scores = torch.where(whole, scores, rounded)
        scores = scores.masked_fill(~seen, -torch.inf)
        for change in own:
            if change.top is not None:
                kth = scores.sort(dim=-1, descending=True).values[:, change.top - 1 : change.top]
                scores = scores.masked_fill(scores < kth, -torch.inf)
        weights = scores.softmax(-1)
        for change in own:
            if change.values:
                recent_values = v
                v = _values(v, change.values)
                if change.values.startswith("kivi"):
                    recent = weights * (place - past < _RECENT)
                    output_of_recent = recent @ recent_values
                    weights = weights - recent
        outputs.append(weights @ v + (0 if output_of_recent is None else output_of_recent))
    return torch.stack(outputs)


def _keys(keys: torch.Tensor, name: str) -> torch.Tensor:
    """Keys `[n, d]` rounded: KIVI's by channel, in groups of 32 tokens."""
    if not name.startswith("kivi"):
        return _values(keys, name)
    whole = len(keys) // _GROUP * _GROUP
    columns = keys[:whole].T.reshape(-1, _GROUP)
    return torch.cat([_levels(columns, int(name[-1])).reshape(-1, whole).T, keys[whole:]])


def _values(values: torch.Tensor, name: str) -> torch.Tensor:
    """Values `[n, e]` rounded token by token."""
    if name.startswith("kivi"):
        return _levels(values.reshape(-1, _GROUP), int(name[-1])).reshape(values.shape)
    if name.startswith("fp8"):
        dtype = {"fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}[name]
        return values.to(dtype).float()
    kind = gguf.GGMLQuantizationType[name.upper()]
    return torch.tensor(dequantize(quantize(values.numpy(), kind), kind))


def _levels(groups: torch.Tensor, bits: int) -> torch.Tensor:
    """Rows of 32 numbers, each rounded to 2 ** bits levels, one number after the other."""
    rounded = []
    for row in groups.tolist():
        least = float(np.float16(min(row)))
        step = float(np.float16((np.float32(max(row)) - np.float32(least)) / np.float32(2**bits - 1)))
        if step == 0:
            rounded.append([least] * len(row))
            continue
        levels = [int(np.rint(min(max(np.float32(x - least) / np.float32(step), 0), 2**bits - 1))) for x in row]
        rounded.append([least + step * level for level in levels])
    return torch.tensor(rounded)
