"""Options of a scan: the numbers that it computes, and how documents are read."""

import sys
from typing import NamedTuple

from attn_cli.selection import ALL, Selection

MOST_COUNTED = 2**16  # different tokens that are counted for every head, the first of the corpus
BATCH_TOKENS = 4096  # at most, of a batch with its padding, unless a single text has more


class ScanOptions(NamedTuple):
    """What a scan of heads over a corpus computes, and how documents are read.

    most_tokens   how many different tokens are counted for each head, the first of the corpus
    batch_tokens  tokens of a batch with its padding, at most, unless a single text has more
    longest       tokens of the longest text that fits into memory
    """

    selection: Selection = ALL
    chunk: int | None = None
    seed: int = 0
    most_tokens: int = MOST_COUNTED
    batch_tokens: int = BATCH_TOKENS
    longest: int = sys.maxsize
