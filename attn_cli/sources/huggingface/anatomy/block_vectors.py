"""The vectors of some tokens before and after every block of a model, seen in its own forward pass."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.errors import InputError
from attn_cli.model_blocks import BlockVectors
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.streams import Seat

READING = ("self", "encoder", "text")  # the streams whose queries are the text's own tokens


@contextmanager
def stepping(
    model: nn.Module,
    seats: Sequence[Seat],
    selection: Selection,
    rows: Sequence[int],
    tokens: int,
    arrive: Callable[[BlockVectors], None],
) -> Iterator[None]:
    """While open, `arrive` is told once per asked block and forward pass of one text of `tokens` tokens.

    Only blocks of the stack that reads the text count: not those of a decoder beside an encoder, and not cross
    attention. Of each block only `rows` are kept.
    """
    hooks = []
    try:
        for module, block in _blocks(model, seats, selection).items():
            watch = _Block(block, rows, tokens, arrive)
            hooks.append(module.register_forward_pre_hook(watch.enter, with_kwargs=True))
            hooks.append(module.register_forward_hook(watch.leave))
        yield
    finally:
        for hook in hooks:
            hook.remove()


class _Block:
    """The two hooks of one module, which is one block, or several where the model uses it again."""

    def __init__(
        self, seats: Sequence[Seat], rows: Sequence[int], tokens: int, arrive: Callable[[BlockVectors], None]
    ) -> None:
        self.seats, self.rows, self.tokens, self.arrive = seats, list(rows), tokens, arrive
        self.calls = 0
        self.before: Any = None

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep the rows of what goes in."""
        self.before = self._rows(args[0] if args else kwargs.get("hidden_states"))

    def leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """Tell of them and of what comes out."""
        after = self._rows(output[0] if isinstance(output, tuple | list) else output)
        call, at = divmod(self.calls, len(self.seats))
        self.arrive(BlockVectors(self.seats[at].layer, self.seats[at].stream, call, self.before, after))
        self.calls += 1

    def _rows(self, hidden: Any) -> Any:
        """The asked rows of hidden states `[1, n, d]` or `[n, d]`, in NumPy."""
        if isinstance(hidden, torch.Tensor):
            flat = hidden.detach()[0] if hidden.ndim == 3 else hidden.detach()
            if flat.ndim == 2 and flat.shape[0] == self.tokens:
                return to_numpy(at_least_float32(flat[self.rows]))
        raise InputError(
            f"layer {self.seats[0].layer} ({self.seats[0].block}) hands on no vector per token",
            "its attention can be seen: attn top, attn matrix",
        )


def _blocks(model: nn.Module, seats: Sequence[Seat], selection: Selection) -> dict[nn.Module, list[Seat]]:
    """The asked blocks of the stack that reads the text, each once, with the places that it takes."""
    found: dict[nn.Module, dict[str, Seat]] = {}
    for seat in seats:
        if seat.stream in READING and seat.block and selection.has_layer(seat.layer, seat.blocks):
            found.setdefault(model.get_submodule(seat.block), {})[seat.block] = seat
    return {module: list(places.values()) for module, places in found.items()}
