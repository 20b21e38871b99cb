"""transformers' attention mask, made a tensor only when code computes with it: 4 GB at 32k tokens."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch

from attn_cli.arrays import Array
from attn_cli.kernel.definition.mask import Mask, all_of, causal, mask_function, padding, window
from attn_cli.sources.huggingface.compat import (
    WITHOUT_TORCH_FUNCTION,
    bidirectional_mask_function,
    causal_mask_function,
    eager_mask,
    prepare_padding_mask,
    sdpa_mask,
    tree_map,
    wrapper_subclass,
)

_MASK_CELLS = 2**20  # of a text: a mask of more is never made whole


class LazyMask(torch.Tensor):
    """A mask `[b, 1, n, m]`, 0 where attending is allowed and the lowest float elsewhere, made only on demand."""

    arguments: dict[str, Any]
    _of_text: dict[tuple[int, int, int, int], Mask]

    @staticmethod
    def __new__(cls, dtype: torch.dtype, arguments: dict[str, Any]) -> "LazyMask":
        """A mask of the arguments that transformers gives its mask functions."""
        shape = (arguments["batch_size"], 1, arguments["q_length"], arguments["kv_length"])
        mask = wrapper_subclass(cls, shape, dtype, arguments["device"])
        mask.arguments, mask._of_text = arguments, {}
        return mask

    def materialized(self) -> torch.Tensor:
        """The mask `[b, 1, n, m]` as transformers' eager mask function would have built it."""
        return eager_mask(**self.arguments, dtype=self.dtype)

    def boolean(self) -> torch.Tensor | None:
        """The mask for torch's SDPA: booleans `[b, 1, n, m]`, or None where its `is_causal` says the same."""
        mask: torch.Tensor | None = sdpa_mask(**(self.arguments | {"allow_is_bidirectional_skip": False}))
        return mask

    @cached_property
    def is_long(self) -> bool:
        """True if the whole mask takes much memory and SDPA needs it: it isn't causal alone, of as many keys."""
        n, m, *offsets = (int(self.arguments[f"{x}_{y}"]) for y in ("length", "offset") for x in ("q", "kv"))
        is_causal = self.arguments["mask_function"] is causal_mask_function and self.padding is None
        skips = is_causal and n == m and offsets[0] == offsets[1] and self.arguments.get("allow_is_causal_skip", True)
        return n * m > _MASK_CELLS and not skips

    @cached_property
    def padding(self) -> torch.Tensor | None:
        """The keys that are not padding, booleans `[b, m]`; None if none is padding."""
        m, offset = self.arguments["kv_length"], self.arguments["kv_offset"]
        row: torch.Tensor | None = prepare_padding_mask(self.arguments.get("attention_mask"), m, offset)
        return None if row is None or bool(row.all()) else row[:, offset : offset + m].bool()

    @cached_property
    def ends(self) -> list[tuple[int, int]]:
        """Of each text its first key that isn't padding, and the one after the last; all if all are. [] without."""
        padding = () if self.padding is None else self.padding
        places = [row.nonzero()[:, 0].tolist() or range(len(row)) for row in padding]
        return [(row[0], row[-1] + 1) for row in places]

    def of_text(self, text: int, rows: slice, keys: slice) -> Mask:
        """The mask of a text's rows and keys, both without padding and numbered from 0: one for all layers."""
        place = text, rows.start, keys.start, keys.stop
        if place not in self._of_text:
            shift, real = (int(self.arguments["q_offset"]), int(self.arguments["kv_offset"])), self.padding
            mask = _kernel_mask(self.arguments["mask_function"], text, shift)
            if real is not None and not bool(real[text, keys].all()):
                mask = all_of(mask, padding(real[text]))
            is_part = real is not None or rows.start > 0 or keys.start > 0
            part = mask.part(rows.start, keys.start, keys.stop - keys.start) if is_part else mask
            self._of_text[place] = part
        return self._of_text[place]

    __torch_function__ = WITHOUT_TORCH_FUNCTION

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Materialize every lazy argument, then run `func`."""

        def materialized(x: Any) -> Any:
            return x.materialized() if isinstance(x, LazyMask) else x

        if func is torch.ops.aten.detach.default:
            return args[0]
        return func(*tree_map(materialized, args), **tree_map(materialized, kwargs or {}))

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"LazyMask(shape={tuple(self.shape)}, dtype={self.dtype})"


def lazy_mask(*, dtype: torch.dtype = torch.float32, **arguments: Any) -> Any:
    """The function that attn puts in place of transformers' eager mask function: it returns a `LazyMask`."""
    if arguments.get("use_vmap"):
        return eager_mask(**arguments, dtype=dtype)
    if arguments.get("allow_is_bidirectional_skip") and arguments.get("local_size") is None:
        padding = arguments.get("attention_mask")
        if padding is None or bool(padding.all()):
            return None
    offsets = {name: arguments.get(name, 0) for name in ("q_offset", "kv_offset")}
    # a static cache adds to its own in place, before the mask is worked out
    offsets = {name: x.clone() if isinstance(x, torch.Tensor) else x for name, x in offsets.items()}
    return LazyMask(dtype, {"device": "cpu", **arguments, **offsets})


def _kernel_mask(function: Callable[..., Any], batch: int, shift: tuple[int, int]) -> Mask:
    """A mask function of transformers as a mask of the kernel: a known one by its parameters, others cell by cell."""
    name = getattr(function, "__qualname__", "")
    cells = getattr(function, "__closure__", None) or ()
    names = function.__code__.co_freevars if hasattr(function, "__code__") else ()
    closure = {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}
    offset = shift[0] - shift[1]
    if function is causal_mask_function:
        return causal(offset)
    if function is bidirectional_mask_function:
        return Mask()
    if name.startswith("and_masks.") and "mask_functions" in closure:
        return all_of(*(_kernel_mask(part, batch, shift) for part in closure["mask_functions"]))
    if name.startswith("sliding_window_overlay.") and isinstance(closure.get("sliding_window"), int):
        return window(closure["sliding_window"], offset)
    if name.startswith("sliding_window_bidirectional_overlay.") and isinstance(closure.get("sliding_window"), int):
        # transformers' number is the largest distance, inclusive
        return window(closure["sliding_window"] + 1, offset, both_sides=True)

    def allowed(i: Array, j: Array) -> Array:
        at = torch.full((1, 1), batch, device=i.device)
        return function(at, torch.zeros_like(at), i + shift[0], j + shift[1])

    return mask_function(allowed, "mask function")
