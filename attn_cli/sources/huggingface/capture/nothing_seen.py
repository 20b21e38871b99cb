"""The error for passes of a module in which no attention was seen."""

from collections.abc import Iterable

from torch import nn

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.capture.ledger import Ledger


def nothing_seen(model: nn.Module, ledger: Ledger) -> LoadError:
    """The error for passes of a module in which no attention was seen: where it was looked for."""
    name = type(model).__name__
    if ledger.unseen:
        places = _paths(place.path for place in ledger.unseen)
        return LoadError(
            f"{name} attended where it can't be seen: {places}",
            "its softmax is in a fused kernel: choose SDPA or eager attention where the module lets you",
        )
    if ledger.not_over_keys:
        places = _paths(place.path for place in ledger.not_over_keys)
        return LoadError(f"{name}: the attention of {places} has no softmax over keys", "attn shows softmax attention")
    paths = (next(iter(ledger.places.paths.get(module, ())), "its own forward") for module in ledger.multiplied)
    if places := _paths(paths):
        return LoadError(
            f"{name}: no attention was seen; batches of matrices were multiplied in {places}",
            "attn sees a softmax over the last axis whose result is multiplied, torch's SDPA and multi-head attention",
        )
    return LoadError(f"{name}: no attention was seen, and no matrices were multiplied", "did its forward pass run?")


def _paths(paths: Iterable[str], most: int = 4) -> str:
    """The first of some paths, and how many more there are."""
    found = list(dict.fromkeys(paths))
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
