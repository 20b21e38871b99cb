"""How much memory a scan takes beside the model and its forward pass, and how large batches may be therefore.

Sums are of a size that depends on heads alone, so memory doesn't grow with the corpus. What a batch takes grows with
its tokens and the heads of a layer. The figures are upper bounds, measured with MiniLM and SmolLM2.
"""

from collections.abc import Sequence

from attn_cli.errors import LimitError
from attn_cli.scans.shards import BATCH_TOKENS
from attn_cli.selection import PlannedLayer
from attn_cli.text import decimal_bytes

DEFAULT_MEMORY = 4 * 10**9
_OF_HEAD = 2 * 10**6  # a head's sums: counts of 65,536 tokens, blocks, quantiles, examples, and a copy to be written
_OF_ROW = 2000  # a row's tokens and targets, for all layers
_OF_HEAD_AND_ROW = 600  # numbers of a row of one layer
_FEWEST = 512  # tokens of a batch


def batch_tokens(memory: int, layers: Sequence[PlannedLayer]) -> int:
    """The tokens of a batch, so that it and the sums of all heads take no more than `memory` bytes; at most 4,096.

    LimitError where not even a batch of 512 tokens fits.
    """
    heads, widest = sum(layer.heads for layer in layers), max((layer.heads for layer in layers), default=0)
    sums, of_row = heads * _OF_HEAD, _OF_ROW + widest * _OF_HEAD_AND_ROW
    if sums + _FEWEST * of_row > memory:
        least = decimal_bytes(-(-(sums + _FEWEST * of_row) // 10**7) * 10**7).replace(" ", "")
        raise LimitError(f"the sums of {heads:,} heads take more than the {decimal_bytes(memory)} of --memory",
                         f"--memory {least} or more, or fewer heads by --layer and --head")  # fmt: skip
    return min(BATCH_TOKENS, (memory - sums) // of_row)
