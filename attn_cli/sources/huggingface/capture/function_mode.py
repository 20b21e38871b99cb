"""Seeing attention that does not ask transformers' registry: softmax, SDPA and multi-head attention called directly.

While a watched module runs, a torch function mode sees every call of a softmax, of scaled dot-product attention and
of multi-head attention in it; inside the last one, where a function mode sees nothing, a dispatch mode does. A few
modules that use none of these return their weights if asked, and are asked.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.hooks import RemovableHandle

from attn_cli.sources.huggingface.anatomy.softmax_in_code import names_a_softmax, suspects
from attn_cli.sources.huggingface.capture import returned_weights as returned

_SOFTMAX = {functional.softmax, torch.softmax, torch.Tensor.softmax, torch.special.softmax}
_ATEN_SOFTMAX = {torch.ops.aten._softmax.default, torch.ops.aten._safe_softmax.default}
_MULTI_HEAD = inspect.signature(functional.multi_head_attention_forward)
_PRODUCTS = {torch.matmul, torch.bmm, torch.baddbmm, torch.einsum, torch.Tensor.matmul, torch.Tensor.bmm,
             torch.Tensor.baddbmm, torch.Tensor.__matmul__}  # fmt: skip
_SDPA_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


class Witness(Protocol):
    """Who is told what was seen."""

    @property
    def count(self) -> int:
        """How many calls were seen so far, those of the registry included."""

    def unseen(self, module: nn.Module) -> None:
        """A module ran that must have attended, and nothing was seen of it."""

    def other(self, module: nn.Module) -> None:
        """A softmax in an attention module that is not over keys."""

    def weights(self, module: nn.Module, way: str, weights: torch.Tensor, scores: torch.Tensor | None) -> None:
        """Attention weights in the layout of the module that made them, and the scores they came from."""

    def sdpa(self, module: nn.Module, arguments: dict[str, Any]) -> torch.Tensor | None:
        """A call of torch's SDPA by its argument names; the output if it was computed on the way."""


@contextmanager
def watching(model: nn.Module, witness: Witness) -> Iterator[None]:
    """While open, `witness` is told of all attention in `model` that the registry doesn't see."""
    mode = Watch(witness)
    handles: list[RemovableHandle] = []
    asked = {module for module in model.modules() if returned.is_asked(module)}
    for module in asked:
        handles += mode.hooks(module, is_attention=False)
        handles += returned.ask(module, witness)
    inside_asked = {inner for module in asked for inner in module.modules()}
    for module, is_attention in suspects(model).items():
        if module not in inside_asked:
            handles += mode.hooks(module, is_attention=is_attention)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        mode.close()


class Running(NamedTuple):
    """A watched module that runs: whether its softmax is attention, and what had been seen before it began.

    calls     how many attention calls
    tally     how many matrix products and softmaxes that are not over keys, as `Watch.tally` counts them
    """

    module: nn.Module
    is_attention: bool
    calls: int
    tally: tuple[int, int]


class Watch(TorchFunctionMode):
    """The function mode; on only while a watched module runs.

    running  the watched modules that run now, outermost first
    tally    how many matrix products were seen in watched modules, and how many softmaxes that are not over keys
    """

    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self.witness = witness
        self.running: list[Running] = []
        self.tally = (0, 0)

    def hooks(self, module: nn.Module, *, is_attention: bool) -> list[RemovableHandle]:
        """Hooks that keep account of `module` running, and the mode on meanwhile."""
        return [
            module.register_forward_pre_hook(self.entering(is_attention)),
            module.register_forward_hook(self.leaving, always_call=True),
        ]

    def entering(self, is_attention: bool) -> Callable[[nn.Module, Any], None]:
        """A hook before a watched module's forward."""

        def enter(module: nn.Module, _: Any) -> None:
            if not self.running:
                self.__enter__()  # type: ignore[no-untyped-call]
            self.running.append(Running(module, is_attention, self.witness.count, self.tally))

        return enter

    def leaving(self, module: nn.Module, *_: Any) -> None:
        """A hook after a watched module's forward, also when it raised."""
        if self.running and self.running[-1].module is module:
            ran = self.running.pop()
            if ran.is_attention and ran.calls == self.witness.count and names_a_softmax(module):
                products, others = (now - before for now, before in zip(self.tally, ran.tally, strict=True))
                if others:
                    self.witness.other(module)
                elif products:  # without any it did not attend: an optional input was not given
                    self.witness.unseen(module)
            if not self.running:
                self.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Make sure that the mode is off."""
        if self.running:
            self.running.clear()
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Do what was asked, and tell of it if it was attention."""
        kwargs = kwargs or {}
        module, is_attention, *_ = self.running[-1]
        if not is_attention:
            return func(*args, **kwargs)
        if func is functional.scaled_dot_product_attention:
            output = self.witness.sdpa(module, dict(zip(_SDPA_ARGUMENTS, args, strict=False)) | kwargs)
            return func(*args, **kwargs) if output is None else output
        if func is functional.multi_head_attention_forward:
            return self._multi_head(module, args, kwargs)
        result = func(*args, **kwargs)
        products, others = self.tally
        if func in _PRODUCTS:
            self.tally = (products + 1, others)
        elif func in _SOFTMAX and isinstance(result, torch.Tensor):
            scores = args[0] if args else kwargs["input"]
            axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if axis in (-1, result.ndim - 1) and result.ndim > 2:
                self.witness.weights(owner(module, self.running), "softmax", result, scores)
            else:
                self.tally = (products, others + 1)
        return result

    def _multi_head(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """torch's own multi-head attention, made to hand over its weights `[B, h, n, m]` per head."""
        call = _MULTI_HEAD.bind(*args, **kwargs)
        call.apply_defaults()
        wanted, averaged = call.arguments["need_weights"], call.arguments["average_attn_weights"]
        call.arguments |= {"need_weights": True, "average_attn_weights": False}
        with Dispatched() as dispatched:
            output, weights = functional.multi_head_attention_forward(*call.args, **call.kwargs)
        assert weights is not None  # they were asked for
        scores = dispatched.scores[-1].reshape(weights.shape) if dispatched.scores else None
        shown = (weights, scores) if weights.ndim == 4 else (weights[None], None if scores is None else scores[None])
        self.witness.weights(owner(module, self.running), "dispatch", *shown)
        if not wanted:
            return output, None
        return output, weights.mean(dim=-3) if averaged else weights


class Dispatched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps what went into every softmax below the function level."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.scores: list[torch.Tensor] = []

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Do what was asked, and keep the input of a softmax."""
        if func in _ATEN_SOFTMAX:
            self.scores.append(args[0])
        return func(*args, **(kwargs or {}))


def owner(module: nn.Module, running: list[Running]) -> nn.Module:
    """The module that a softmax belongs to: the one around it where the softmax is a module of its own."""
    if isinstance(module, nn.Softmax) and len(running) > 1:
        return running[-2].module
    return module
