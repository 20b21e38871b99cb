"""The memory of a scan, which doesn't grow with the corpus: upper bounds, measured with MiniLM and SmolLM2."""

import sys

from attn_cli.errors import LimitError
from attn_cli.scans.read.scan_options import BATCH_TOKENS, ScanOptions
from attn_cli.scans.read.scannable import Scannable
from attn_cli.text import decimal_bytes

DEFAULT_MEMORY = 4 * 10**9
_OF_HEAD = 2 * 10**6  # a head's sums: counts of 65,536 tokens, blocks, quantiles, examples, and a copy to be written
_OF_SHARD = 16 * 10**6  # texts of a shard, their tokens, and what a tokenizer returns
_OF_ROW = 2000  # a row's tokens and targets, for all layers
_OF_HEAD_AND_ROW = 600  # numbers of a row of one layer
_FEWEST = 512  # tokens of a batch


def within(memory: int, source: Scannable, options: ScanOptions) -> ScanOptions:
    """The options with sizes of batches and of the longest text that fit in `memory` bytes beside the model."""
    layers, chunk = source.planned_layers(options.selection), options.chunk or 0
    heads, widest = sum(layer.heads for layer in layers), max((layer.heads for layer in layers), default=0)
    sums, of_row = heads * _OF_HEAD + _OF_SHARD, source.bytes_of_token + _OF_ROW + widest * _OF_HEAD_AND_ROW
    room = (memory - sums) // of_row
    if room < max(_FEWEST, chunk):
        least = decimal_bytes(-(-(sums + max(_FEWEST, chunk) * of_row) // 10**7) * 10**7).replace(" ", "")
        what = f"a scan of {heads:,} heads" + f" in pieces of {chunk:,} tokens" * (chunk > _FEWEST)
        less = " or a smaller --chunk" if chunk > _FEWEST else ""
        raise LimitError(f"{what} takes more than the {decimal_bytes(memory)} of --memory",
                         f"--memory {least} or more, or fewer heads by --layer and --head{less}")  # fmt: skip
    fits = source.positions is not None and source.positions <= room
    return options._replace(batch_tokens=min(BATCH_TOKENS, room), longest=sys.maxsize if fits else room)


def longest_text(options: ScanOptions) -> int | None:
    """The most tokens of a text for which there is memory; None if documents are cut, or all fit."""
    return None if options.longest == sys.maxsize or options.chunk is not None else options.longest
