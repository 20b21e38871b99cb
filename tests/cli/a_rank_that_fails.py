"""`python -m tests.cli.a_rank_that_fails RANK limit|bug ...`: attn, of which one rank fails in the midst of a pass.

That is in its second layer, in which the other waits for this one's part of the sum.
"""

import os
import sys
from typing import Any

import torch

from attn_cli.cli import main
from attn_cli.errors import LimitError
from attn_cli.sources.huggingface.capture.batch_visitor import BatchVisitor

ERRORS = {"limit": LimitError("planted", "nothing"), "bug": ZeroDivisionError("planted")}
_WHOLE = BatchVisitor.visit_products
_layers = []


def _broken(self: BatchVisitor, *arguments: Any) -> torch.Tensor | None:
    _layers.append(arguments)
    if os.environ["RANK"] == _rank and len(_layers) == 2:
        raise ERRORS[_cause]
    return _WHOLE(self, *arguments)


if __name__ == "__main__":
    _, _rank, _cause, *words = sys.argv
    sys.argv = ["attn", *words]
    BatchVisitor.visit_products = _broken  # type: ignore[method-assign]
    main()
