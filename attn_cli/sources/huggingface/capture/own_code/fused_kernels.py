"""Capturing the attention of fused kernels of other packages, whose softmax nothing outside of them sees.

While a module runs, their functions hand queries, keys, values and rule to `attend`, whose output they return. Packages
that no code has imported are not looked for.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from types import FunctionType
from typing import Any

import torch
from torch import nn

from attn_cli.sources.huggingface.capture.attend import Attend
from attn_cli.sources.huggingface.capture.own_code import flash_attention, memory_efficient
from attn_cli.sources.huggingface.capture.own_code.fused_call import FusedCall, NotShownError, one_after_the_other
from attn_cli.sources.huggingface.capture.own_code.replaced_code import all_replaced
from attn_cli.sources.huggingface.compat import hidden_from_function_modes


class FusedKernels:
    """Shows the calls of fused kernels, such as flash-attn's, to `attend`.

    attend   gets queries, keys, values, scale and mask of a call; gives the output, or None to leave it to the kernel
    running  finds the module that attends now; None where there is none
    """

    def __init__(self, attend: Attend, running: Callable[[], nn.Module | None]) -> None:
        self.attend, self.running = attend, running
        self._is_inside = False  # of a kernel, which may call another

    @contextmanager
    def seen(self) -> Iterator[None]:
        """Context manager: calls of the kernels' functions, by whatever name they are imported, go to this object."""
        with all_replaced(list(_functions()), self.called):
            yield

    def called(self, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a kernel's call: the output in the kernel's layout, and whatever else the call asked for.

        The output is that of `self.attend` where it gives one. It is the kernel's own outside an attention module, with
        dropout, and for a call whose arguments can't be read, which the ledger notes as unseen. All else, such as the
        log-sum-exp of scores, is the kernel's.
        """
        module = None if self._is_inside else self.running()
        if module is None:
            return kernel(*args, **kwargs)
        bound = signature(kernel).bind(*args, **kwargs)
        bound.apply_defaults()
        given, name = bound.arguments, kernel.__name__
        with hidden_from_function_modes():
            try:
                output = self._output(module, kernel, given)
            except NotShownError as error:
                self.attend.ledger.record_unseen(module, f"{name} with {error}")
                return self._of_kernel(kernel, args, kwargs)
            wants_more = given.get("return_attn_probs") or given.get("return_softmax_lse")
            fills_cache = name == "flash_attn_with_kvcache" and given.get("k") is not None
            drops_out = given.get("dropout_p") or given.get("p")
            if output is not None and not (wants_more or fills_cache or drops_out):
                return output
            result = self._of_kernel(kernel, args, kwargs)
        if output is None or drops_out:
            return result
        return (output, *result[1:]) if isinstance(result, tuple) else output

    def _output(self, module: nn.Module, kernel: Callable[..., Any], given: Mapping[str, Any]) -> torch.Tensor | None:
        """The output in the layout of the kernel's; None where `attend` leaves it to the kernel."""
        name, call, starts, query = kernel.__name__, _read(kernel, given), None, given.get("query")
        starts = (memory_efficient if name in memory_efficient.NAMES else flash_attention).starts_of_texts(given)
        output = call.output(self.attend, module)  # [b, n, h, e]
        if output is None:
            return None
        if starts is not None:
            output = one_after_the_other(output, starts)
        return output if query is None else output.reshape(*query.shape[:-1], output.shape[-1])

    def _of_kernel(self, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._is_inside = True
        try:
            with hidden_from_function_modes():
                return kernel(*args, **kwargs)
        finally:
            self._is_inside = False


def _read(kernel: Callable[..., Any], given: Mapping[str, Any]) -> FusedCall:
    """A kernel's call with these arguments, by name."""
    if kernel.__name__ in memory_efficient.NAMES:
        return memory_efficient.memory_efficient_call(given)
    defaults = {name: parameter.default for name, parameter in signature(kernel).parameters.items()}
    return flash_attention.flash_call(kernel.__name__, given, defaults)


def _functions() -> Iterator[FunctionType]:
    """The functions of the kernels that packages have, each once."""
    found: dict[int, FunctionType] = {}
    for kernels in (flash_attention, memory_efficient):
        for package in kernels.PACKAGES:
            for name in kernels.NAMES:
                function = getattr(sys.modules.get(package), name, None)
                if isinstance(function, FunctionType):
                    found[id(function)] = function
    yield from found.values()
