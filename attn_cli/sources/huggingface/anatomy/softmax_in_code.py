"""The modules whose code names a softmax outside transformers' registry: only these are watched, for speed."""

import re
from collections.abc import Iterator, Mapping
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

_SOFTMAX = frozenset(
    {
        "softmax",
        "Softmax",
        "scaled_dot_product_attention",
        "multi_head_attention_forward",
        "_transformer_encoder_layer_fwd",
        "logsumexp",
    }
)


# Functions of other libraries, and of torch, whose softmax nothing outside of them sees.
_FUSED = (
    "flash_attn_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_kvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_with_kvcache",
    "memory_efficient_attention",
    "flex_attention",
    "sageattn",
)


def modules_to_watch(model: nn.Module) -> dict[nn.Module, bool | None]:
    """The modules whose own code may compute attention, each with whether a softmax that it calls is attention."""
    refuse_compiled(model)
    models = _outermost_models(model)
    inside = {part for each in models for part in each.modules()}
    watched: dict[nn.Module, bool | None] = {
        module: False if is_router(path, module) else None
        for path, module in model.named_modules()
        if module not in inside and (not path or _has_own_code(module)) and not isinstance(module, ScriptModule)
    }
    for each in models:
        watched |= _of_transformers(each)
    return watched


def refuse_compiled(model: nn.Module) -> None:
    """Raise LoadError for a module that torch.jit compiled with attention in it: it takes no hooks."""
    for path, module in model.named_modules():
        if isinstance(module, ScriptModule) and re.search(
            "softmax|attention", str(getattr(module, "inlined_graph", ""))
        ):
            name = f"{path} ({module.original_name})" if path else str(module.original_name)
            raise LoadError(
                f"{name} is compiled by torch.jit: its attention can't be seen", "give the module that it was made of"
            )


def _outermost_models(module: nn.Module) -> list[PreTrainedModel]:
    if isinstance(module, PreTrainedModel):
        return [module]
    return [model for child in module.children() for model in _outermost_models(child)]


def _has_own_code(module: nn.Module) -> bool:
    return not type(module).__module__.startswith("torch.nn") or names_a_softmax(module)


def _of_transformers(model: PreTrainedModel) -> dict[nn.Module, bool | None]:
    modules = {path: module for path, module in model.named_modules(remove_duplicate=False) if path}
    watched: dict[nn.Module, bool | None] = {}
    for path, module in modules.items():
        if not _may_attend(module):
            continue
        around = [".".join(path.split(".")[:i]) for i in range(path.count("."), 0, -1)]
        verdicts = [_verdict(outer, modules[outer]) for outer in (path, *around)]
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
        if _code_names(_class_of(module), REGISTRY_NAMES)
        or (watched.get(module, False) is not False and _may_attend(module))
    }
    if not any(watched.get(module, True) is None for module in found):
        return list(found)
    named = [module for module, is_named in found.items() if is_named]
    return named or list(found)


def _verdict(path: str, module: nn.Module) -> bool | None:
    if is_router_or_gate(path, module):
        return False
    return True if looks_like_attention(path, module) else None


def names_a_softmax(module: nn.Module) -> bool:
    """True if the code of a module's class, or a function that it calls, names a softmax."""
    return _code_names(_class_of(module), _SOFTMAX)


def _may_attend(module: nn.Module) -> bool:
    return names_a_softmax(module) or fused_kernel_of(module) != ""


def fused_kernel_of(module: nn.Module) -> str:
    """The fused kernel that the code of a module's class, or a function that it calls, names; "" for none."""
    of_class = _class_of(module)
    if not _code_names(of_class, frozenset(_FUSED)):
        return ""
    return next(name for name in _FUSED if _code_names(of_class, frozenset({name})))


def _class_of(module: nn.Module) -> Any:  # typed Any because its static type isn't hashable
    return type(module)


@cache
def _code_names(module_class: Any, words: frozenset[str]) -> bool:
    classes = [cls for cls in module_class.__mro__ if cls not in PreTrainedModel.__mro__]
    return any(_function_names(function, words, set()) for cls in classes for function in _methods(cls))


def _methods(cls: type) -> list[FunctionType]:
    values = [getattr(value, "__func__", value) for value in vars(cls).values()]
    return [value for value in values if isinstance(value, FunctionType)]


def _function_names(function: FunctionType, words: frozenset[str], visited: set[int]) -> bool:
    """True if a function names one of `words`, or an inner function, one in its closure, or a global one it calls."""
    if id(function) in visited:
        return False
    visited.add(id(function))
    names = set(_names(function.__code__))
    if names & words:
        return True
    closure_values = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    callees = [
        function.__globals__.get(name) for name in names if name in function.__globals__ and not _is_default(name)
    ]
    inner = [
        x for x in (*closure_values, *callees) if isinstance(x, FunctionType) and not x.__module__.startswith("torch")
    ]
    # A softmax may also be a model's own torch.autograd.Function, whose code is in its class.
    own = [x for x in callees if isinstance(x, type) and issubclass(x, Function) and x is not Function]
    inner += [method for cls in own for method in _methods(cls)]
    return any(_function_names(x, words, visited) for x in inner)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _is_default(name: str) -> bool:
    return name.startswith(EAGER_PREFIX)
