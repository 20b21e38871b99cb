"""The place of this process among those that torchrun started, which share a model: the first one speaks for all."""

import os


def rank() -> int:
    """Its number, from 0; 0 of a process that torchrun didn't start."""
    return int(os.environ.get("RANK", "0")) if ranks() > 1 else 0


def ranks() -> int:
    """How many they are; 1 of a process that torchrun didn't start."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "TORCHELASTIC_RUN_ID" in os.environ else 1
