"""Refusals that commands share: of options beside each other, and of sources in which no model runs."""

from collections.abc import Mapping

from attn_cli.errors import InputError
from attn_cli.sources import is_model, is_recording


def refuse_beside(option: str, others: Mapping[str, bool], advice: str) -> None:
    """Raise InputError if one of `others`, which says of each option whether it was given, stands beside `option`."""
    for other in (name for name, is_given in others.items() if is_given):
        raise InputError(f"{option} and {other} at once", advice.format(other=other))


def refuse_without_model(name: str, reason: str) -> None:
    """Raise InputError if `name`, a value of --model, is a recording or a table of word vectors."""
    if is_recording(name):
        raise InputError(f"{name} is a recording, and {reason}", "choose the model itself with --model")
    if not is_model(name):
        raise InputError(f"{name} is a table of word vectors, and {reason}", "choose a model with --model")
