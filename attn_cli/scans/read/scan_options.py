"""Options of a scan: the numbers that it computes, and how documents are read."""

import sys
from typing import NamedTuple

from attn_cli.selection import ALL, Selection

MOST_COUNTED = 2**16  # different tokens that are counted for every head, the first of the corpus
BATCH_TOKENS = 4096  # at most, of a batch with its padding, unless a single text has more


class ScanOptions(NamedTuple):
    """The numbers that a scan computes, and how documents are read.

    chunk, stride  the tokens of a piece of a document, and from one piece to the next; None: documents are not cut
    seed           of the kinds' controls
    most_tokens    different tokens that are counted
    batch_tokens   of a batch with its padding, unless a single text has more
    longest        tokens of a text for which there is memory
    """

    selection: Selection = ALL
    chunk: int | None = None
    stride: int | None = None
    seed: int = 0
    most_tokens: int = MOST_COUNTED
    batch_tokens: int = BATCH_TOKENS
    longest: int = sys.maxsize
