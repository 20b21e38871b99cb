"""An independent way to silence a head: its slice of what W_O reads is set to 0, in whole passes without a cache."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from attn_cli.model.intervention import HeadPlace
from attn_cli.prompt import Prompt
from attn_cli.sources.huggingface.read.tokenize import labels
from attn_cli.sources.huggingface.source import ModelSource
from tests.architectures.knock import speaking
from tests.architectures.tiny import tiny_model
from tests.attention_name import all_named

IDS = (9, 21, 33, 45, 57, 69, 7, 81, 93, 101, 9, 17)


def speaking_source(kind: str) -> ModelSource:
    """A tiny model of that kind with its head of words, as a source without a tokenizer."""
    return speaking(tiny_model(kind, "tiny"))


def prompt_of(ids: Sequence[int] = IDS, **others: Sequence[int]) -> Prompt:
    tokens = {name: labels(None, list(values)) for name, values in others.items()}
    return Prompt("", labels(None, list(ids)), others=tokens)


def log2_p(model: PreTrainedModel, arguments: dict[str, Any], **options: Any) -> torch.Tensor:
    """log2 p of all words after every row `[n, words]`, by the model's own eager attention."""
    with torch.no_grad(), all_named(model, "eager"):
        logits = model(**arguments, **options)["logits"]
    return logits[0].double().log_softmax(-1) / torch.log(torch.tensor(2.0, dtype=torch.float64))


class Silenced:
    """Context manager: pre-hooks that zero heads' slices in the input of the modules `names` end with, in `rows`."""

    def __init__(
        self, model: nn.Module, heads: Sequence[HeadPlace], paths: dict[int, str], h: int, rows: Sequence[int] | None
    ) -> None:
        self.model, self.heads, self.paths, self.h, self.rows = model, heads, paths, h, rows

    def __enter__(self) -> None:
        self.handles = [
            self.model.get_submodule(self.paths[head.layer]).register_forward_pre_hook(self._zero(head.head))
            for head in self.heads
        ]

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()

    def _zero(self, head: int) -> Any:
        def hook(_: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            x = args[0].clone()
            width = x.shape[-1] // self.h
            rows = list(range(x.shape[1])) if self.rows is None else list(self.rows)
            x[:, rows, head * width : (head + 1) * width] = 0
            return (x, *args[1:])

        return hook


class Masked:
    """Context manager: attention modules whose path ends with `name` get this additive mask in place of the model's."""

    def __init__(self, model: nn.Module, name: str, mask: torch.Tensor) -> None:
        self.modules = [module for path, module in model.named_modules() if path.endswith(name)]
        self.mask = mask

    def __enter__(self) -> None:
        self.handles = [module.register_forward_pre_hook(self._give, with_kwargs=True) for module in self.modules]

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()

    def _give(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        masks = [name for name in kwargs if name in ("mask", "attention_mask")]
        assert len(masks) == 1
        return args, kwargs | {masks[0]: self.mask}
