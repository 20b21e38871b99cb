"""`python -m tests.cli.a_rank_that_fails RANK limit|bug ...`: attn, of which one rank fails in the midst of a pass.

That is in its second layer, in which the other waits for this one's part of the sum.
"""

import os
import sys
from typing import Any

import torch

from attn_cli.cli import main as attn_main
from attn_cli.errors import LimitError
from attn_cli.sources.huggingface.capture.batch_visitor import BatchVisitor

ERRORS = {"limit": LimitError("planted", "nothing"), "bug": ZeroDivisionError("planted")}


def main() -> None:
    """Run attn with the fault planted in this process, if it is that of the rank."""
    _, rank, cause, *words = sys.argv
    sys.argv = ["attn", *words]
    whole, layers = BatchVisitor.visit_products, []

    def broken(self: BatchVisitor, *arguments: Any) -> torch.Tensor | None:
        layers.append(arguments)
        if os.environ["RANK"] == rank and len(layers) == 2:
            raise ERRORS[cause]
        return whole(self, *arguments)

    BatchVisitor.visit_products = broken  # type: ignore[method-assign]
    attn_main()


if __name__ == "__main__":
    main()
