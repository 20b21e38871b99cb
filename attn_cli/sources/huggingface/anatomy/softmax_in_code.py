"""The modules whose code names a softmax outside transformers' registry: only these are watched, for speed."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from torch import nn
from torch.autograd import Function
from torch.jit import ScriptModule
from transformers import PreTrainedModel

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.anatomy.streams import is_router, is_router_or_gate, looks_like_attention
from attn_cli.sources.huggingface.compat import EAGER_PREFIX, REGISTRY_NAMES

_WORDS = """softmax Softmax scaled_dot_product_attention multi_head_attention_forward _transformer_encoder_layer_fwd
    logsumexp"""
_SOFTMAX = frozenset(_WORDS.split())
# Functions of other libraries, and of torch, whose softmax nothing outside of them sees.
_KERNELS = """flash_attn_func flash_attn_qkvpacked_func flash_attn_kvpacked_func flash_attn_varlen_func
    flash_attn_varlen_qkvpacked_func flash_attn_varlen_kvpacked_func flash_attn_with_kvcache
    memory_efficient_attention flex_attention sageattn"""
_FUSED = frozenset(_KERNELS.split())


def modules_to_watch(model: nn.Module) -> dict[nn.Module, bool | None]:
    """The modules whose own code may compute attention, each with whether a softmax that it calls is attention."""
    refuse_compiled(model)
    models = _outermost_models(model)
    inside = {part for each in models for part in each.modules()}
    watched: dict[nn.Module, bool | None] = {
        module: False if is_router(path, module) else None
        for path, module in model.named_modules()
        if module not in inside
        and (not path or not type(module).__module__.startswith("torch.nn") or names_a_softmax(module))
        and not isinstance(module, ScriptModule)
    }
    for each in models:
        watched |= _of_transformers(each)
    return watched


def refuse_compiled(model: nn.Module) -> None:
    """Raise LoadError for a module that torch.jit compiled with attention in it: it takes no hooks."""
    for path, module in model.named_modules():
        graph = str(getattr(module, "inlined_graph", "")) if isinstance(module, ScriptModule) else ""
        if isinstance(module, ScriptModule) and re.search("softmax|attention", graph):
            name = f"{path} ({module.original_name})" if path else str(module.original_name)
            raise LoadError(
                f"{name} is compiled by torch.jit: its attention can't be seen", "give the module that it was made of"
            )


def _outermost_models(module: nn.Module) -> list[PreTrainedModel]:
    if isinstance(module, PreTrainedModel):
        return [module]
    return [model for child in module.children() for model in _outermost_models(child)]


def _of_transformers(model: PreTrainedModel) -> dict[nn.Module, bool | None]:
    modules = {path: module for path, module in model.named_modules(remove_duplicate=False) if path}
    watched: dict[nn.Module, bool | None] = {}
    for path, module in modules.items():
        if not _may_attend(module):
            continue
        around = [".".join(path.split(".")[:i]) for i in range(path.count("."), 0, -1)]
        each = [(outer, modules[outer]) for outer in (path, *around)]
        verdicts = [False if is_router_or_gate(*x) else looks_like_attention(*x) or None for x in each]
        if next((verdict for verdict in verdicts if verdict is not None), False):
            watched[module] = True
            for outer, verdict in zip(around, verdicts[1:], strict=True):
                if verdict:
                    watched.setdefault(modules[outer], True)
                if verdict is False:
                    break
        elif any(looks_like_attention(outer, modules[outer]) for outer in around):
            watched[module] = False
    return watched if any(watched.values()) else {}


def attention_modules(model: nn.Module, watched: Mapping[nn.Module, bool | None]) -> list[nn.Module]:
    """The modules that will attend if they run, in the model's order."""
    found = {
        module: watched.get(module) or looks_like_attention(path, module)
        for path, module in model.named_modules()
        if _named(module, REGISTRY_NAMES) or (watched.get(module, False) is not False and _may_attend(module))
    }
    if not any(watched.get(module, True) is None for module in found):
        return list(found)
    named = [module for module, is_named in found.items() if is_named]
    return named or list(found)


def names_a_softmax(module: nn.Module) -> bool:
    """True if the code of a module's class, or a function that it calls, names a softmax."""
    return bool(_named(module, _SOFTMAX))


def _may_attend(module: nn.Module) -> bool:
    return names_a_softmax(module) or fused_kernel_of(module) != ""


def fused_kernel_of(module: nn.Module) -> str:
    """The fused kernel that the code of a module's class, or a function that it calls, names; "" for none."""
    return min(_named(module, _FUSED), default="")


def _named(module: nn.Module, words: frozenset[str]) -> set[str]:
    of_class: Any = type(module)  # whose static type isn't hashable
    return _named_by(of_class, words)


@cache
def _named_by(module_class: Any, words: frozenset[str]) -> set[str]:
    classes = [cls for cls in module_class.__mro__ if cls not in PreTrainedModel.__mro__]
    return _first_named((function for cls in classes for function in _methods(cls)), words, set())


def _first_named(functions: Iterable[FunctionType], words: frozenset[str], visited: set[int]) -> set[str]:
    """The `words` that the first of some functions names that names any, by itself or by what it calls."""
    return next((found for function in functions if (found := _names_in(function, words, visited))), set())


def _methods(cls: type) -> list[FunctionType]:
    values = [getattr(value, "__func__", value) for value in vars(cls).values()]
    return [value for value in values if isinstance(value, FunctionType)]


def _names_in(function: FunctionType, words: frozenset[str], visited: set[int]) -> set[str]:
    """The `words` that a function names, or else an inner function, one in its closure, or a global one it calls."""
    if id(function) in visited:
        return set()
    visited.add(id(function))
    names, known = {*_names(function.__code__)}, function.__globals__
    if names & words:
        return names & words
    callees = [known[name] for name in names if name in known and not name.startswith(EAGER_PREFIX)]
    inside = (*_filled(function), *callees)
    inner = [x for x in inside if isinstance(x, FunctionType) and not x.__module__.startswith("torch")]
    # A softmax may also be a model's own torch.autograd.Function, whose code is in its class.
    own = [x for x in callees if isinstance(x, type) and issubclass(x, Function) and x is not Function]
    return _first_named((*inner, *(method for cls in own for method in _methods(cls))), words, visited)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _filled(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # of an empty cell
            yield cell.cell_contents
