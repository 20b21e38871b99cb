"""Capturing softmax, SDPA and multi-head attention that modules call, by a torch function mode while they run."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.anatomy.softmax_in_code import fused_kernel_of, names_a_softmax
from attn_cli.sources.huggingface.anatomy.streams import looks_like_attention
from attn_cli.sources.huggingface.capture.calls import ObservedAttention
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask, lazy_mask
from attn_cli.sources.huggingface.capture.possible_weights import PossibleSoftmaxes, PossibleWeights
from attn_cli.sources.huggingface.capture.seen_weights import SeenWeights, are_heads_first, heads_in, texts_in
from attn_cli.sources.huggingface.compat import causal_mask_function, hidden_from_function_modes, replaced
from attn_cli.sources.huggingface.known_types import IN_BLOCKS

_SOFTMAX = {functional.softmax, torch.softmax, torch.Tensor.softmax, torch.special.softmax}
_SHARED = "heads and texts share an axis: read text by text"
_DROPOUTS = ("attn_dropout", "attention_dropout", "attn_drop", "dropout")
_DROPOUT = inspect.signature(functional.dropout)
_MULTI_HEAD = inspect.signature(functional.multi_head_attention_forward)
_OF_TENSORS = {torch.Tensor.matmul, torch.Tensor.bmm, torch.Tensor.baddbmm, torch.Tensor.__matmul__}
_PRODUCTS = {torch.matmul, torch.bmm, torch.baddbmm, torch.einsum} | _OF_TENSORS
_SDPA, _OWN_SOFTMAX = functional.scaled_dot_product_attention, functional.softmax
_SDPA_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


@contextmanager
def watching(attend: ObservedAttention) -> Iterator[None]:
    """Context manager: `attend` gets all attention of its model that doesn't go through transformers' registry."""
    mode = AttentionMode(attend)
    handles: list[RemovableHandle] = []
    places = attend.ledger.places
    in_blocks = {module for module in places.paths if type(module).__name__ in IN_BLOCKS}
    for module in in_blocks:
        handles += mode.hooks(module, is_attention=False)
        handles.append(module.register_forward_hook(lambda x, *_: attend.ledger.record_unseen(x, "in blocks of keys")))
    inside_blocks = {inner for module in in_blocks for inner in module.modules()}
    for module, is_attention in places.watched.items():
        if module not in inside_blocks:
            handles += mode.hooks(module, is_attention=is_attention)
    with hooked(*handles):
        try:
            yield
        finally:
            mode.close()


def _dropout_of(module: nn.Module) -> float:
    drops = next((x for name in _DROPOUTS if (x := getattr(module, name, None)) is not None), 0.0)
    share = getattr(drops, "p", drops)
    return float(share) * module.training if isinstance(share, int | float) else 0.0


class RunningModule(NamedTuple):
    """A watched module while it runs, and what was counted when it began."""

    module: nn.Module
    is_attention: bool | None
    calls: int
    products: int
    other_softmaxes: int
    given: torch.Size | None  # the shape of its first float input


class AttentionMode(TorchFunctionMode):
    """Sees softmaxes, SDPA and multi-head attention in models' own code while a watched module runs; tells `attend`."""

    def __init__(self, attend: ObservedAttention) -> None:
        super().__init__()
        self.attend, self.ledger = attend, attend.ledger
        self.running: list[RunningModule] = []
        # of matrices, and over other axes than keys, that modules that may attend computed so far
        self.products = self.other_softmaxes = 0
        self.possible = PossibleSoftmaxes()

    def hooks(self, module: nn.Module, *, is_attention: bool | None) -> list[RemovableHandle]:
        """Hooks that record when `module` runs, and switch the mode on for that time."""

        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            given = None
            if is_attention is not False:
                with hidden_from_function_modes():
                    x = first_float_input(args, kwargs)
                    given = None if x is None or x.is_nested else x.shape
            if not self.running:
                self.__enter__()  # type: ignore[no-untyped-call]
            counts = self.ledger.total, self.products, self.other_softmaxes
            self.running.append(RunningModule(module, is_attention, *counts, given))

        return [
            module.register_forward_pre_hook(enter, with_kwargs=True),
            module.register_forward_hook(self._leave, always_call=True),
        ]

    def close(self) -> None:
        """Make sure that the mode is off."""
        if self.running:
            self.running.clear()
            self.possible.clear()
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def _leave(self, module: nn.Module, *_: Any) -> None:
        """After a watched module's forward, also if it raised: record attention of which no call was intercepted."""
        if not self.running or self.running[-1].module is not module:
            return
        before = self.running.pop()
        if not self.running:
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        if before.is_attention is not False:
            with hidden_from_function_modes():
                self._judge(before)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run `func`; if it is attention, pass it to `attend`."""
        kwargs = kwargs or {}
        module, is_attention, *_ = self.running[-1]
        if is_attention is False:
            return func(*args, **kwargs)
        if any(isinstance(x, torch.Tensor) and x.is_nested for x in args):
            if func in _SOFTMAX or func is functional.scaled_dot_product_attention:
                self.ledger.record_unseen(module, "nested tensors")
            return func(*args, **kwargs)
        if func is functional.scaled_dot_product_attention:
            query = args[0] if args else kwargs["query"]
            return self._sdpa(module, self._are_heads_first(module, query, self.running[-1].given), *args, **kwargs)
        if func is functional.multi_head_attention_forward:
            return self._multi_head(module, args, kwargs)
        result = func(*args, **kwargs)
        if func in _PRODUCTS:
            self.products += 1
            if isinstance(result, torch.Tensor) and result.ndim > 2:
                self.ledger.multiplied[module] = None
            self._take_weights(func, args, result)
        elif func is functional.dropout:
            self._drop(args, kwargs, result)
        elif func in _SOFTMAX and isinstance(result, torch.Tensor):
            scores = args[0] if args else kwargs["input"]
            axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
            self._softmax(result, scores, axis)
        elif self.possible.waiting:
            self.possible.follow(func, args, kwargs, result)
        return result

    def _softmax(self, weights: torch.Tensor, scores: torch.Tensor, axis: int | None) -> None:
        """Take in a softmax over the last axis: at once in transformers' attention, else when it is multiplied."""
        module, is_attention, *_ = self.running[-1]
        owner = self._owner(module)
        is_known = type(owner).__module__.startswith("transformers.")
        is_other = axis not in (-1, weights.ndim - 1) or (is_known and weights.ndim < 3)
        self.other_softmaxes += is_other
        if is_other or weights.ndim < 3:  # such as a kernel of ConvBERT's convolution
            return
        if is_attention and is_known:
            self.ledger.dropouts[owner] = _dropout_of(owner)
            self.attend.of_softmax(owner, "softmax", SeenWeights(weights, scores, weights.dtype))
        else:
            of_owner = self.running[-1 if owner is module else -2]
            of_product = self.products > of_owner.products
            self.possible.add(
                PossibleWeights(weights, scores, owner, of_owner.given, of_product, weights, weights.dtype)
            )

    def _drop(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor) -> None:
        call = _DROPOUT.bind(*args, **kwargs)
        call.apply_defaults()
        for owner in self.possible.follow(functional.dropout, args, kwargs, result, is_dropped=True):
            self.ledger.dropouts[owner] = call.arguments["training"] * call.arguments["p"]

    def _take_weights(self, func: Callable[..., Any], args: tuple[Any, ...], result: torch.Tensor) -> None:
        """Pass on the softmax that a product multiplies with values; one of no product waits for the next."""
        if func is torch.einsum and not isinstance(args[1], torch.Tensor):
            args = (args[0], *args[1])
        factors = self.possible.factors_in(args)
        self.other_softmaxes += factors
        for possible in self.possible.taken_by(func, args, result) if not factors else ():
            if possible.of_product:
                self._accept(possible)
            else:
                self.possible.summed.append((possible, result))

    def _accept(self, possible: PossibleWeights) -> None:
        if possible.is_over_channels:
            self.other_softmaxes += 1
            return
        owner, weights, scores = possible.owner, possible.weights, possible.scores
        if self._are_heads_first(owner, weights, possible.given):
            weights, scores = weights.transpose(0, 1), None if scores is None else scores.transpose(0, 1)
        self.attend.of_softmax(owner, "softmax", SeenWeights(weights, scores, possible.dtype))

    def _are_heads_first(self, owner: nn.Module, x: torch.Tensor, given: torch.Size | None) -> bool:
        """True if weights or queries `x` are `[h, b, n, ...]`; of those of one axis for both a note is kept."""
        texts = texts_in(given, x.shape[-2], self.ledger.labels.size)
        self.ledger.notes[owner] = _SHARED if x.ndim == 3 and len(x) > texts > 1 else ""
        return are_heads_first(x, texts, owner)

    def _judge(self, before: RunningModule) -> None:
        """After a module that may attend: take what only its name can judge, and record what was not seen."""
        module, is_sure = before.module, before.is_attention
        for possible in self.possible.sums_inside(module):
            self._accept(possible)
        if before.calls == self.ledger.total and (kernel := fused_kernel_of(module)):
            self.ledger.record_unseen(module, kernel)
            return
        is_named = is_sure or self._is_called_attention(module)
        if not is_named and any(self._is_called_attention(outer.module) for outer in self.running):
            return
        inside = self.possible.inside(module)
        if not is_named or before.calls != self.ledger.total:
            return
        for possible in inside:
            self._accept(possible)
        if before.calls != self.ledger.total or (is_sure and not names_a_softmax(module)):
            return
        products = self.products - before.products
        if self.other_softmaxes > before.other_softmaxes or (products > 1 and not is_sure):
            self.ledger.record_not_over_keys(module)
        elif products and is_sure:  # without products it did not attend, for lack of an optional input
            self.ledger.record_unseen(module)

    def _is_called_attention(self, module: nn.Module) -> bool:
        return any(looks_like_attention(path, module) for path in self.ledger.places.paths.get(module, ("",)))

    def _multi_head(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run torch's multi-head attention, whose SDPA is passed to `attend`, or its weights where it makes them."""
        call = _MULTI_HEAD.bind(*args, **kwargs)
        call.apply_defaults()
        given, owner, scores = call.arguments, self._owner(module), list[torch.Tensor]()
        if not given["need_weights"]:
            # by these names its own code calls them
            with replaced(vars(functional), {"scaled_dot_product_attention": partial(self._sdpa, owner, False)}):
                return functional.multi_head_attention_forward(*args, **kwargs)

        def softmax(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            scores.append(x)
            return _OWN_SOFTMAX(x, *args, **kwargs)

        self.ledger.dropouts[owner] = given["training"] * given["dropout_p"]
        is_averaged, given["average_attn_weights"] = given["average_attn_weights"], False
        with replaced(vars(functional), {"softmax": softmax}):
            output, weights = functional.multi_head_attention_forward(*call.args, **call.kwargs)
        assert weights is not None  # because need_weights is true
        shown = weights if weights.ndim == 4 else weights[None]  # [b, h, n, m]
        of_shown = scores[-1].reshape(shown.shape)
        shown = of_shown.softmax(-1) if self.ledger.dropouts[owner] else shown
        self.attend.of_softmax(owner, "dispatch", SeenWeights(shown, of_shown, shown.dtype))
        return output, weights.mean(dim=-3) if is_averaged else weights

    def _sdpa(self, module: nn.Module, are_heads_first: bool, *args: Any, **kwargs: Any) -> torch.Tensor:
        given = dict(zip(_SDPA_ARGUMENTS, args, strict=False)) | kwargs
        output = sdpa_output(self.attend, module, given, are_heads_first=are_heads_first)
        return _SDPA(*args, **kwargs) if output is None else output

    def _owner(self, module: nn.Module) -> nn.Module:
        if isinstance(module, nn.Softmax) and len(self.running) > 1:
            return self.running[-2].module
        return module


@torch.no_grad()
def sdpa_output(
    attend: ObservedAttention, module: nn.Module, arguments: dict[str, Any], *, are_heads_first: bool
) -> torch.Tensor | None:
    """The output `[..., n, e]` of a call of torch's SDPA that `attend` sees; None to leave it to SDPA."""
    query, key, value = (arguments[name] for name in ("query", "key", "value"))
    mask, scale, dropout = (arguments.get(name) for name in ("attn_mask", "scale", "dropout_p"))
    if mask is not None and arguments.get("is_causal"):
        return None  # torch refuses both
    attend.ledger.dropouts[module] = dropout or 0.0
    texts = attend.ledger.labels.size
    h = query.shape[-3] if query.ndim > 3 else heads_in(query.shape[0], module, texts) if query.ndim == 3 else 1
    q, k, v = (x.transpose(0, 1) if are_heads_first else _with_four_axes(x, h) for x in (query, key, value))
    if mask is not None and not isinstance(mask, LazyMask):
        if mask.ndim != 4 or are_heads_first:
            mask = mask.expand(*query.shape[:-1], key.shape[-2])
            mask = mask.transpose(0, 1) if are_heads_first else _with_four_axes(mask, h)
        mask = mask.expand(*mask.shape[:2], q.shape[2], k.shape[2])  # [b, h, n, m]
    elif arguments.get("is_causal"):
        sizes: dict[str, Any] = {"batch_size": len(q), "q_length": q.shape[2], "kv_length": k.shape[2]}
        mask = lazy_mask(**sizes, mask_function=causal_mask_function, device=q.device)
    rule = LayerRule(float(scale) if scale is not None else query.shape[-1] ** -0.5, mask=mask)
    output = attend.of_products(module, "sdpa", (q, k, v), rule)  # [b, h, n, e]
    if output is None or dropout:
        return None
    output = output.transpose(0, 1) if are_heads_first else output
    return output.to(query.dtype).reshape(*query.shape[:-1], value.shape[-1])


def _with_four_axes(x: torch.Tensor, h: int) -> torch.Tensor:
    if x.ndim <= 3:
        return x.reshape(-1, h if x.ndim == 3 and x.shape[0] % h == 0 else 1, *x.shape[-2:])
    return x.flatten(0, x.ndim - 4)
