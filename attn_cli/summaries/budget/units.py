"""The units of a plan: what can be taken from a cache by itself, and how small the cache is then."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from attn_cli.errors import InputError
from attn_cli.model.intervention import AttentionLayer
from attn_cli.model.kv_cache import CACHE_FORMATS, WHOLE_BITS, CacheChange, KeyHead
from attn_cli.selection import Selection
from attn_cli.summaries.budget.windows import KeptKeys

Taken = Literal["window", "top", "keys", "values"]


@dataclass(frozen=True)
class CachedHead:
    """A key head whose keys and values are cached; in latent attention all heads of a layer, which share one cache.

    place        its layer, its number and its stack (self, encoder ...)
    whole_layer  whether it stands for all heads of its layer
    keys         how many keys a row sees at the end of the text, which are cached
    sizes        how many numbers are cached of a token's key, and of its value; of a latent vector its length and 0; 0
                 and 0 where unknown
    """

    place: KeyHead
    whole_layer: bool
    keys: int
    sizes: tuple[int, int]

    @property
    def is_seen(self) -> bool:
        """True if its keys and values can be changed; False where its layer shows weights alone,
        as the model's own code has it.
        """
        return any(self.sizes)


@dataclass(frozen=True)
class Unit:
    """One part of the KV cache that can be taken away: keys of a head, or digits of a layer's keys or values.

    taken   what is lost: "window", the keys behind a window; "top", all but the keys of the highest scores; "keys" and
            "values", digits of a layer's keys or values, which are rounded
    place   the key head, or head 0 of a layer that is taken as a whole
    change  what a run takes away
    """

    taken: Taken
    place: KeyHead
    change: CacheChange

    @property
    def whole_layer(self) -> bool:
        """True if all heads of its layer are changed."""
        return self.change.key_heads is None

    def concerns(self, head: CachedHead) -> bool:
        """True if this part of the cache is, or holds, some of this key head's keys or values."""
        same = (self.place.layer, self.place.stream) == (head.place.layer, head.place.stream)
        return same and (self.whole_layer or self.place.head == head.place.head)


def cached_heads(layers: Sequence[AttentionLayer], selection: Selection, tokens: int) -> list[CachedHead]:
    """The key heads of the chosen layers, in the order of the forward pass, for a text of so many tokens."""
    heads = []
    for layer in layers:
        if not selection.has_layer(layer.layer, layer.blocks):
            continue
        keys = tokens if layer.seen is None else layer.seen
        if layer.latent:
            heads.append(CachedHead(KeyHead(layer.layer, 0, layer.stream), True, keys, (layer.latent, 0)))
        else:
            places = (KeyHead(layer.layer, head, layer.stream) for head in range(layer.key_heads))
            heads += [CachedHead(place, False, keys, layer.sizes) for place in places]
    return heads


def windows(heads: Sequence[CachedHead], window: KeptKeys) -> list[Unit]:
    """For each key head that sees more keys than a window keeps, in order, the part of the cache behind its window."""
    return [
        Unit("window", head.place, _of_head(head, window=window.size, first=window.first))
        for head in heads
        if head.keys > window.count
    ]


def top_keys(heads: Sequence[CachedHead], count: int) -> list[Unit]:
    """For each key head that sees more than `count` keys, all its keys but the `count` of highest scores of each query.

    Each is a part of the cache to take away. Raises InputError where the model's own code computes weights.
    """
    _check_seen(heads, "--top-keys")
    return [Unit("top", head.place, _of_head(head, top=count)) for head in heads if head.keys > count]


def rounded(heads: Sequence[CachedHead], keys: str, values: str) -> list[Unit]:
    """For each layer the digits of its keys, and of its values, that rounding in these formats takes; "" for none.

    Each is a part of the cache to take away. Raises InputError for formats whose blocks don't divide a head's numbers,
    for latent vectors, and where the model's own code computes weights.
    """
    _check_seen(heads, "--kv")
    units: list[Unit] = []
    for at in dict.fromkeys((head.place.layer, head.place.stream) for head in heads):
        own = next(head for head in heads if (head.place.layer, head.place.stream) == at)
        if own.whole_layer:
            raise InputError(
                f"layer {at[0]} caches latent vectors, which engines round, and no keys and values",
                "leave out --kv: windows of whole layers are priced",
            )
        place = KeyHead(at[0], 0, at[1])
        for name, size in ((keys, own.sizes[0]), (values, own.sizes[1])):
            if name and size % CACHE_FORMATS[name].block:
                raise InputError(
                    f"{name} rounds blocks of {CACHE_FORMATS[name].block} numbers, and heads of {size} hold no whole "
                    "number of them", "--kv fp8_e4m3 and fp8_e5m2 round every number by itself",
                )  # fmt: skip
        if keys:
            units.append(Unit("keys", place, CacheChange(*at, keys=keys)))
        if values:
            units.append(Unit("values", place, CacheChange(*at, values=values)))
    return units


def _check_seen(heads: Sequence[CachedHead], option: str) -> None:
    for head in heads:
        if not head.is_seen:
            raise InputError(
                f"layer {head.place.layer} computes its attention in the model's own code, where its weights are seen "
                "and no keys and values", f"leave out {option}: windows are priced",
            )  # fmt: skip


def cached_share(heads: Sequence[CachedHead], taken: Collection[Unit]) -> float:
    """The bits of the KV cache at the text's end without the parts `taken`,
    over those of the whole at 16 bits a number.
    """
    by_layer: dict[tuple[int, str], list[Unit]] = {}
    for unit in taken:
        by_layer.setdefault((unit.place.layer, unit.place.stream), []).append(unit)
    whole = kept = 0.0
    for head in heads:
        own = [x for x in by_layer.get((head.place.layer, head.place.stream), ()) if x.concerns(head)]
        keys, bits = head.keys, [WHOLE_BITS, WHOLE_BITS]
        for change in (unit.change for unit in own):
            if change.window is not None:
                keys = min(keys, change.window + change.first)
            for side, name in enumerate((change.keys, change.values)):
                bits[side] = CACHE_FORMATS[name].bits if name else bits[side]
        sizes = head.sizes if any(head.sizes) else (1, 1)
        whole += head.keys * WHOLE_BITS * sum(sizes)
        kept += keys * sum(size * width for size, width in zip(sizes, bits, strict=True))
    return kept / max(whole, 1)


def _of_head(head: CachedHead, *, window: int | None = None, first: int = 0, top: int | None = None) -> CacheChange:
    key_heads = None if head.whole_layer else (head.place.head,)
    return CacheChange(head.place.layer, head.place.stream, key_heads, window, first, top)
