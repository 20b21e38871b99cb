"""Functions of other packages that run other code for a while, under whatever name they were imported."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from inspect import signature
from types import FunctionType
from typing import Any

Called = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Gets a function as it was, and the arguments that it is called with; returns what the caller gets."""


@contextmanager
def all_replaced(functions: Sequence[FunctionType], called: Called) -> Iterator[None]:
    """Context manager: a call of one of these functions, by whatever name it was imported, calls `called` instead.

    called  gets the original function, the positional and the keyword arguments; its result goes to the caller
    """
    with ExitStack() as stack:
        for function in functions:
            stack.enter_context(_replaced(function, called))
        yield


@contextmanager
def _replaced(function: FunctionType, called: Called) -> Iterator[None]:
    """Context manager: the function's code is replaced and not its name, since others hold it by names of their own.

    A function within another, which holds variables of that, stays as it is.
    """
    if function.__closure__ is not None:
        yield
        return
    before = function.__code__, function.__defaults__, function.__kwdefaults__
    stated = vars(function).get("__signature__")
    original = FunctionType(before[0], function.__globals__, function.__name__, before[1])
    original.__kwdefaults__ = before[2]
    original.__signature__ = signature(function)  # type: ignore[attr-defined]
    function.__signature__ = signature(function)  # type: ignore[attr-defined]
    function.__code__, function.__defaults__ = _passing_on.__code__, None
    function.__kwdefaults__ = {"_to": lambda args, kwargs: called(original, args, kwargs)}
    try:
        yield
    finally:
        function.__code__, function.__defaults__, function.__kwdefaults__ = before
        del function.__signature__  # type: ignore[attr-defined]
        if stated is not None:
            function.__signature__ = stated  # type: ignore[attr-defined]


def _passing_on(*args: Any, _to: Callable[..., Any], **kwargs: Any) -> Any:
    """The code that stands in for a function's own; it names nothing global, since those are the function's."""
    return _to(args, kwargs)
