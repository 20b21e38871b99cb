"""The numbers of query and key/value heads that an attention module states."""

from torch import nn

_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads", "nhead", "h")
_KEY_HEADS = ("num_key_value_heads", "num_kv_heads")


def heads_of(module: nn.Module) -> int | None:
    """The number of query heads by the module's own attribute; None where it has none of the usual names."""
    return _first_number(module, _HEADS)


def groups_of(module: nn.Module, h: int) -> list[int]:
    """For each of `h` query heads the number of its key/value head; its own number if the module states no count.

    >>> module = nn.Module()
    >>> module.num_key_value_heads = 2
    >>> groups_of(module, 4), groups_of(nn.Module(), 4)
    ([0, 0, 1, 1], [0, 1, 2, 3])
    """
    g = _first_number(module, _KEY_HEADS)
    return [head // (h // g) for head in range(h)] if g and h % g == 0 else list(range(h))


def _first_number(module: nn.Module, names: tuple[str, ...]) -> int | None:
    values = (getattr(module, name, None) for name in names)
    return next((value for value in values if isinstance(value, int)), None)
