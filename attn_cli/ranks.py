"""The place of this process among those that torchrun started, which share a model: the first one speaks for all."""

import os


def rank() -> int:
    """The number of this process among those that torchrun started, from 0; 0 if it started none."""
    return int(os.environ.get("RANK", "0")) if ranks() > 1 else 0


def ranks() -> int:
    """The number of processes that torchrun started together; 1 for a process that it didn't start."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "TORCHELASTIC_RUN_ID" in os.environ else 1
