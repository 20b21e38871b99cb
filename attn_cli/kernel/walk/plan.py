"""How much of an attention makes a band: small enough for the cache, large enough for quick matrix products."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from attn_cli.arrays import Array, is_torch
from attn_cli.kernel.definition.masks import Span
from attn_cli.kernel.walk.matmul import prefers_onednn

CACHE_BYTES = 3 * 2**20  # one band of scores; measured best between 1.5 and 3 MiB on processors with 1 MiB of L2 a core
ONEDNN_BYTES = 4 * 2**20  # the same where oneDNN multiplies one key head at a time
GPU_BYTES = 256 * 2**20  # a GPU wants long kernels, and its memory is its cache
_WIDTHS = 16  # of the bands of a walk where oneDNN multiplies: it keeps up to 4 MiB of kernels for each


class Tile(NamedTuple):
    """How many heads and how many query rows make a band."""

    heads: int
    height: int


def tile_of(h: int, g: int, m: int, *, on_gpu: bool = False, whole: bool = False) -> Tile:
    """A band of about the cache's size for h query heads over g key heads and m keys; all heads if `whole`.

    Lower than 64 rows makes slow matrix products, except where heads that share their keys are multiplied together;
    taller than 128 computes too much of the blocked triangle of a causal layer. On a processor 96 rows and up are best,
    of as many key heads as cores take side by side (measured: at 4,096 keys 3 x 64 rows take 1.3 times as long as
    2 x 96, for two cores wait for a third product).

    >>> tile_of(12, 12, 512), tile_of(12, 12, 2048), tile_of(12, 12, 4096)
    (Tile(heads=12, height=128), Tile(heads=4, height=96), Tile(heads=2, height=96))
    >>> tile_of(9, 3, 2048), tile_of(9, 3, 8192)
    (Tile(heads=3, height=128), Tile(heads=3, height=64))
    """
    lines = max(192, (GPU_BYTES if on_gpu else CACHE_BYTES) // max(1, 4 * m))  # rows of all heads together
    if whole:
        return Tile(h, max(16, min(128, lines // h // 16 * 16)))
    share = h // g
    if lines >= (64 if on_gpu else 128) * h:
        heads = h
    elif lines >= 96 * share:
        heads = _side_by_side(min(g, lines // (96 * share)), g) * share
    elif lines >= 64 * share:
        heads = share
    else:
        heads = max(x for x in range(1, share + 1) if share % x == 0 and x * 32 <= lines)
    return Tile(heads, max(32, min(128, lines // heads // 16 * 16)))


def _side_by_side(most: int, g: int) -> int:
    """How many of g products, `most` at a time, keep cores busy evenly: 1, 2, 4, 8 ..., with few left over at the end.

    >>> _side_by_side(6, 12), _side_by_side(8, 12), _side_by_side(2, 3), _side_by_side(4, 25)
    (4, 4, 1, 4)
    """
    count = 1 << (most.bit_length() - 1)
    while g % count and g < 2 * count:
        count //= 2
    return count


def onednn_tile(h: int, g: int, m: int) -> Tile:
    """The same where oneDNN multiplies, one key head after the other: 256 rows a product, more if keys are few.

    Both cores work on each product, which lower ones don't pay for; taller than 128 rows a head only if it has its keys
    alone (measured: at 4,096 keys 1 x 256 rows take 127 ms, 1 x 128 158, MKL's best tile 182).

    >>> onednn_tile(12, 12, 2048), onednn_tile(9, 3, 2048), onednn_tile(9, 3, 8192)
    (Tile(heads=1, height=256), Tile(heads=3, height=128), Tile(heads=3, height=80))
    """
    lines, share = max(256, ONEDNN_BYTES // (4 * m)), h // g
    heads = max(x for x in range(1, share + 1) if share % x == 0 and x * 32 <= lines)
    return Tile(heads, min(256 if heads == 1 else 128, lines // heads // 16 * 16))


def best_tile(q: Array, k: Array, *, whole: bool = False) -> Tile:
    """The tile for q `[h, n, d]` and k `[g, m, d]` where they are and by what multiplies them."""
    if not whole and prefers_onednn(q, k):
        return onednn_tile(q.shape[0], k.shape[0], k.shape[1])
    on_gpu = is_torch(q) and q.device.type != "cpu"
    return tile_of(q.shape[0], k.shape[0], k.shape[1], on_gpu=on_gpu, whole=whole)


def runs(rows: Sequence[int], height: int) -> Iterator[tuple[int, int]]:
    """Ascending row numbers as start:stop pieces without gaps, none taller than `height`.

    >>> list(runs([0, 1, 2, 5], 2))
    [(0, 2), (2, 3), (5, 6)]
    """
    if isinstance(rows, range):
        yield from ((start, min(start + height, rows.stop)) for start in range(rows.start, rows.stop, height))
        return
    start = at = None
    for row in rows:
        if start is None or at is None:
            start = at = row
        elif row == at + 1 and row - start < height:
            at = row
        else:
            yield start, at + 1
            start = at = row
    if start is not None and at is not None:
        yield start, at + 1


def few_widths(span: Span, height: int, m: int) -> Span:
    """The span with blocked keys after it, so that all bands of a walk have one of few widths.

    Spans that don't start at the first key are a window's, whose widths are the same anyway.

    >>> few_widths(Span(0, 0, 90, 100), 64, 1024), few_widths(Span(0, 0, 90, 100), 64, 4096).last
    (Span(first=0, open_first=0, open_last=90, last=128), 256)
    """
    if span.first > 0:
        return span
    step = height * -(-m // (_WIDTHS * height))
    return span._replace(last=min(m, -(-span.last // step) * step))
