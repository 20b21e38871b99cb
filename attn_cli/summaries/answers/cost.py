"""attn cost: operations and bytes of attention over n tokens, with the chosen keys and with other kinds of keys."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from attn_cli.fields import COUNT, FLAG, TEXT, Field, Output, Rows, each, object_schema, or_none
from attn_cli.kernel.bands.plan import tile_of
from attn_cli.kernel.lessons.cost import LayerSizes
from attn_cli.summaries.report import Answer

_SCORE_BYTES = 4  # scores and weights are float32 whatever the model's precision
_WINDOW = 4096


@dataclass(frozen=True)
class Variant:
    """The cost with one kind of KV cache, over all layers: its bytes, and the operations with it.

    An operation is a multiplication or an addition: two for every multiplication of a matrix product.

    name     the kind: "multi-head", "grouped-query" ...
    asked    whether it is the one that was asked for
    cache_bytes  of all layers and texts
    matrix_operations      for scores and mixing (weights times values), of the whole text
    next_token_operations  for one more token, projections too; `next_token_matrix_operations` those of scores and
                           mixing
    """

    name: str
    layer: LayerSizes
    asked: bool
    cache_bytes: int
    matrix_operations: int
    next_token_operations: int
    next_token_matrix_operations: int


_OPERATIONS = ("projections", "scores", "softmax", "mixing")
_VARIANT = (
    Field("variant", TEXT, "multi-head, grouped, multi-query, latent or window, with its sizes", "name"),
    Field("requested", FLAG, "true for the requested sizes", "asked"),
    Field("kv_heads", or_none(COUNT), "key heads; null for latents",
          lambda each: None if each.layer.rank else each.layer.kv_heads),
    Field("rank", or_none(COUNT), "numbers of a latent; null for none", lambda each: each.layer.rank or None),
    Field("window", or_none(COUNT), "keys that a query sees; null for all", "layer.window"),
    Field("cache_bytes", COUNT, "of all layers after all tokens"),
    Field("matrix_operations", COUNT, "scores and mixing, of all layers"),
    Field("next_token_operations", COUNT, "of all layers, with a cache"),
    Field("next_token_matrix_operations", COUNT, "those of them that are scores and mixing"),
)  # fmt: skip
FIELDS = (
    Field("tokens", COUNT, "how long the text is", "n"),
    Field("batch", COUNT, "texts at once"),
    Field("layers", COUNT, "layers of attention"),
    Field("windowed_layers", COUNT, "layers whose queries see a window", "windowed"),
    Field("heads", COUNT, "query heads", "layer.heads"),
    Field("kv_heads", COUNT, "key heads", "layer.kv_heads"),
    Field("head_size", COUNT, "numbers of a query or key", "layer.d"),
    Field("value_size", COUNT, "numbers of a value", "layer.e"),
    Field("width", COUNT, "numbers of an embedding", "layer.width"),
    Field("rank", or_none(COUNT), "numbers of a latent; null for none", lambda cost: cost.layer.rank or None),
    Field("window", or_none(COUNT), "keys that a query sees; null for all", "layer.window"),
    Field("causal", FLAG, "true if later keys are masked"),
    Field("bytes_per_number", COUNT, "of a cached number", "itemsize"),
    Field("operations", object_schema([Field(name, COUNT, "of all layers") for name in _OPERATIONS]),
          "on the whole text, by part"),
    Field("matrix_bytes_per_layer", COUNT, "of the weights, if stored in float32", "matrix_bytes"),
    Field("matrix_bytes", COUNT, "the same of all layers", lambda cost: cost.matrix_bytes * cost.layers),
    Field("band_bytes", COUNT, "bytes of weights that attn stores at a time"),
    Field("band", each({"type": "integer", "minimum": 1}), "heads and rows of that"),
    Field("variants", Rows(_VARIANT), "alternatives for the KV cache"),
)  # fmt: skip
OUTPUT = Output("attn.cost/2", "What attention takes, counted from sizes.", FIELDS)


@dataclass(frozen=True, eq=False)
class Cost(Answer):
    """The cost of attention in `layers` layers over n tokens: operations, and bytes of memory.

    An operation is a multiplication or an addition, two for every multiplication of a matrix product.

    operations      by part: projections, scores, softmax (an exponential, an addition and a division for each query and
                    key), mixing (weights times values)
    matrix_bytes    the size of one layer's weights, if held whole, in float32
    band_bytes      the size of the part of them that attn holds at a time: `band` = (heads, rows)
    windowed        how many of the layers have the sliding window of `layer`, if any
    itemsize        bytes of a cached number
    is_longest      whether n is the longest text of the model, for want of another length
    """

    name: ClassVar[str] = "cost"
    fields: ClassVar[Sequence[Field]] = FIELDS
    table: ClassVar[str] = "variants"

    n: int
    batch: int
    layer: LayerSizes
    layers: int
    windowed: int
    causal: bool
    itemsize: int
    operations: dict[str, int]
    matrix_bytes: int
    band: tuple[int, int]
    band_bytes: int
    variants: tuple[Variant, ...]
    is_longest: bool = False

    def arrays(self) -> dict[str, np.ndarray]:
        """By kind of KV cache: `variants`, their names, `cache_bytes` and `matrix_operations`, `[variants]` each."""
        return {
            "variants": np.array([variant.name for variant in self.variants]),
            "cache_bytes": np.array([variant.cache_bytes for variant in self.variants]),
            "matrix_operations": np.array([variant.matrix_operations for variant in self.variants], dtype=np.float64),
        }


def cost_of(
    layer: LayerSizes, layers: int, windowed: int, n: int, *, batch: int = 1, causal: bool = True, itemsize: int = 2,
    is_longest: bool = False,
) -> Cost:  # fmt: skip
    """The cost of `layers` such layers over `batch` texts of n tokens; the window, if any, holds in `windowed` of
    them.
    """
    shares = ((layer, windowed), (replace(layer, window=None), layers - windowed))
    operations = dict.fromkeys(_OPERATIONS, 0)
    for kind, count in shares:
        cells = kind.cells(n, n, causal=causal)
        operations["projections"] += 2 * batch * count * n * kind.projections
        operations["scores"] += 2 * batch * count * kind.score_multiplications(cells)
        operations["softmax"] += 3 * batch * count * kind.heads * cells
        operations["mixing"] += 2 * batch * count * kind.mix_multiplications(cells)
    tile = tile_of(layer.heads, layer.kv_heads, n)
    rows = min(tile.height, n)
    return Cost(
        n, batch, layer, layers, windowed, causal, itemsize, operations,
        matrix_bytes=batch * layer.heads * n * n * _SCORE_BYTES,
        band=(tile.heads, rows),
        band_bytes=tile.heads * rows * n * _SCORE_BYTES,
        variants=tuple(_variants(layer, layers, windowed, n, batch, causal, itemsize)),
        is_longest=is_longest,
    )  # fmt: skip


def _grouped(key_heads: int) -> str:
    return f"grouped-query, {key_heads} key heads"


def _variants(
    layer: LayerSizes, layers: int, windowed: int, n: int, batch: int, causal: bool, itemsize: int
) -> Iterator[Variant]:
    """The chosen layer among variants of it; latents are as in DeepSeek-V2 and windows as in Mistral by default."""
    h, d = layer.heads, layer.d - layer.shared
    plain = replace(layer, kv_heads=h, rank=0, shared=0, window=None)
    middle = layer.kv_heads if 1 < layer.kv_heads < h and not layer.rank else max(1, h // 4)
    rank, shared = (layer.rank, layer.shared) if layer.rank else (4 * d, d // 2)
    latent = replace(plain, d=d + shared, rank=rank, shared=shared)
    grouped = replace(plain, kv_heads=middle)
    base = layer if layer.window is None else replace(layer, window=None)
    narrow = replace(base, window=layer.window or _WINDOW)
    names = {
        "multi-head": plain,
        _grouped(middle): grouped,
        "multi-query": replace(plain, kv_heads=1),
        f"latent, {rank} + {shared}": latent,
        f"window of {narrow.window:,}": narrow,
    }
    if h <= middle or middle == 1:
        names.pop(_grouped(middle))
    if h == 1:
        names.pop("multi-query")
    for name, other in names.items():
        count = windowed if other.window is not None and layer.window is not None else layers
        kinds = ((other, count), (replace(other, window=None), layers - count))
        yield Variant(
            name,
            other,
            other == layer,
            sum(batch * times * kind.kept(n) * itemsize for kind, times in kinds),
            sum(2 * batch * times * (kind.score_multiplications(cells) + kind.mix_multiplications(cells))
                for kind, times in kinds for cells in (kind.cells(n, n, causal=causal),)),
            sum(2 * batch * times * kind.step(n + 1) for kind, times in kinds),
            sum(2 * batch * times * kind.step_reads(n + 1) for kind, times in kinds),
        )  # fmt: skip
