"""Queries and keys of tiny models as sums over their writers: dense float64 matrices, read from modules by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from attn_cli.sources.huggingface.capture.registry import all_named

Parts = dict[str, torch.Tensor]
"""By the name of the writer, `[n, width]`."""


@dataclass(frozen=True)
class Family:
    """The names of a family of models, with {} for the number of a block.

    embeddings  the modules that make the first vectors, by the names of the writers
    first_norm  behind their sum, "" for none
    w_o, mlp    what attention and feed-forward end with
    cross       what attention to an encoder ends with, "" for none
    before      the norm before attention, "" for none
    behind      norms behind W_O and behind the feed-forward, before they are added
    after       norms behind the two sums
    q, k        projections: of a module's output, `[n, h * d]`
    q_norm, k_norm  norms of queries and keys, "" for none; of all heads together if `whole`
    turned      how columns are rotated: "halves", "neighbours" or ""
    centred, plus_one  norms take their mean off; their gain is 1 + w
    scale       of each output that is added; `embedding_scale` of the first vectors, `query_scale` of queries, all in
                the model's own code
    """

    embeddings: dict[str, str]
    w_o: str
    mlp: str
    q: Callable[[nn.Module], tuple[torch.Tensor, torch.Tensor]]
    k: Callable[[nn.Module], tuple[torch.Tensor, torch.Tensor]]
    first_norm: str = ""
    cross: str = ""
    before: str = ""
    behind: tuple[str, str] = ("", "")
    after: tuple[str, str] = ("", "")
    q_norm: str = ""
    k_norm: str = ""
    whole: bool = False
    turned: str = ""
    centred: bool = False
    plus_one: bool = False
    scale: float = 1.0
    embedding_scale: float = 1.0
    query_scale: float = 1.0


def linear(path: str) -> Callable[[nn.Module], tuple[torch.Tensor, torch.Tensor]]:
    """Weight `[out, in]` and bias of a linear layer of a block."""

    def read(block: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
        layer = block.get_submodule(path)
        weight = layer.weight.detach().double()
        bias = torch.zeros(len(weight)) if layer.bias is None else layer.bias.detach()
        return weight, bias.double()

    return read


def of_rows(read: Any, rows: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Some rows of weight and bias, of a layer for queries, keys and values together."""

    def cut(block: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
        weight, bias = read(block)
        return rows(weight), rows(bias)

    return cut


def conv1d(path: str) -> Callable[[nn.Module], tuple[torch.Tensor, torch.Tensor]]:
    """The same of GPT-2's layer, whose weight is `[in, out]`."""

    def read(block: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
        layer = block.get_submodule(path)
        return layer.weight.detach().double().T, layer.bias.detach().double()

    return read


class DenseWriters:
    """Queries `[h, n, d]` and keys `[g, n, d]` of block `layer` by writer, from one eager pass."""

    def __init__(self, model: PreTrainedModel, arguments: dict[str, Any], family: Family, layer: int) -> None:
        self.model, self.family, self.layer = model, family, layer
        self.seen: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        config = model.config.get_text_config()
        self.h = config.num_attention_heads
        self.g = getattr(config, "num_key_value_heads", None) or self.h
        self._run(arguments)
        total, parts = self._stream()
        block = model.get_submodule(self._block(layer))
        x, of_writers = self._norm(family.before.format(layer), total, parts)
        self.queries = self._heads(block, family.q, self.h, family.q_norm.format(layer), x, of_writers)
        self.keys = self._heads(block, family.k, self.g, family.k_norm.format(layer), x, of_writers)

    def _block(self, layer: int) -> str:
        return self.family.w_o.format(layer).split(f".{layer}.")[0] + f".{layer}"

    def _run(self, arguments: dict[str, Any]) -> None:
        names = list(self.family.embeddings.values())
        for layer in range(self.layer):
            names += [path.format(layer) for path in (self.family.w_o, self.family.cross, self.family.mlp) if path]
        handles = [self.model.get_submodule(name).register_forward_hook(self._keep(name)) for name in names]
        with torch.no_grad(), all_named(self.model, "eager"):
            self.model(**arguments)
        for handle in handles:
            handle.remove()

    def _keep(self, name: str) -> Any:
        def hook(_: nn.Module, args: Any, output: Any) -> None:
            out = output[0] if isinstance(output, tuple) else output
            given = args[0] if args else torch.zeros(1)
            pair = given.double().reshape(-1, given.shape[-1]), out.double().reshape(-1, out.shape[-1])
            self.seen.setdefault(name, pair)  # an encoder's, before its decoder's

        return hook

    def _stream(self) -> tuple[torch.Tensor, Parts]:
        """The stream before block `layer` and its parts."""
        family = self.family
        parts = {name: self.seen[path][1] * family.embedding_scale for name, path in family.embeddings.items()}
        n = max(len(x) for x in parts.values())
        parts = {name: x.expand(n, -1) for name, x in parts.items()}
        parts["biases"] = torch.zeros_like(next(iter(parts.values())))
        _, parts = self._norm(family.first_norm, sum(parts.values()), parts)
        for layer in range(self.layer):
            written = self._heads_of(family.w_o.format(layer), f"head {layer}", n)
            if family.cross:
                crossed = self._heads_of(family.cross.format(layer), f"cross head {layer}", n)
                written |= crossed | {"biases": written["biases"] + crossed["biases"]}
            mlp = {f"MLP {layer}": self.seen[family.mlp.format(layer)][1]}
            for added, behind, after in zip((written, mlp), family.behind, family.after, strict=True):
                _, added = self._norm(behind.format(layer), sum(added.values()), added)
                for name, x in added.items():
                    parts[name] = parts.get(name, torch.zeros_like(x)) + family.scale * x
                _, parts = self._norm(after.format(layer), sum(parts.values()), parts)
        return sum(parts.values()), parts

    def _heads_of(self, path: str, name: str, n: int) -> Parts:
        """What each head of a W_O wrote, and its bias."""
        w_o, (z, _) = self.model.get_submodule(path), self.seen[path]
        matrix = w_o.weight.detach().double()
        matrix = matrix if type(w_o).__name__ == "Conv1D" else matrix.T  # [h * e, width]
        e = len(matrix) // self.h
        written = {f"{name}.{h}": z[:, h * e : (h + 1) * e] @ matrix[h * e : (h + 1) * e] for h in range(self.h)}
        bias = getattr(w_o, "bias", None)
        written["biases"] = (torch.zeros(matrix.shape[1]) if bias is None else bias.detach().double()).expand(n, -1)
        return written

    def _norm(self, path: str, x: torch.Tensor, parts: Parts) -> tuple[torch.Tensor, Parts]:
        """The parts of a norm of x, its statistics held."""
        if not path:
            return x, parts
        norm = self.model.get_submodule(path)
        parts = self._held(norm, x, parts)
        return sum(parts.values()), parts

    def _held(self, norm: nn.Module, x: torch.Tensor, parts: Parts) -> Parts:
        eps = next(getattr(norm, name) for name in ("eps", "variance_epsilon") if hasattr(norm, name))
        gain = norm.weight.detach().double() + self.family.plus_one
        centred = self.family.centred
        x = x - x.mean(-1, keepdim=True) if centred else x
        divisor = (x.square().mean(-1, keepdim=True) + eps).sqrt()
        held = {name: gain * (y - y.mean(-1, keepdim=True) if centred else y) / divisor for name, y in parts.items()}
        bias = getattr(norm, "bias", None)
        if bias is not None:
            held["biases"] = held["biases"] + bias.detach().double() if "biases" in held else (
                bias.detach().double().expand(len(x), -1)
            )  # fmt: skip
        return held

    def _heads(
        self, block: nn.Module, read: Any, heads: int, norm: str, x: torch.Tensor, parts: Parts
    ) -> dict[str, torch.Tensor]:
        """Queries or keys `[heads, n, d]` by writer."""
        weight, bias = read(block)
        made = {name: y @ weight.T for name, y in parts.items()}
        made["biases"] = made["biases"] + bias
        if norm and self.family.whole:
            made = self._held(self.model.get_submodule(norm), sum(made.values()), made)
        split = {name: y.reshape(len(y), heads, -1).transpose(0, 1) for name, y in made.items()}
        if norm and not self.family.whole:
            split = self._held(self.model.get_submodule(norm), sum(split.values()), split)
        return {name: self._turned(y) for name, y in split.items()}

    def _turned(self, x: torch.Tensor) -> torch.Tensor:
        """x `[heads, n, d]` behind the rotation, of which columns there are."""
        if not self.family.turned:
            return x
        config = self.model.config.get_text_config()
        rope = config.rope_parameters
        width = int(x.shape[-1] * rope.get("partial_rotary_factor", 1.0))
        angles = torch.arange(x.shape[1])[:, None] * rope["rope_theta"] ** (-torch.arange(0, width, 2) / width).double()
        cos, sin = angles.cos(), angles.sin()  # [n, width / 2]
        turned, kept = x[..., :width], x[..., width:]
        if self.family.turned == "halves":
            a, b = turned.chunk(2, dim=-1)
            turned = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
        else:
            a, b = turned[..., 0::2], turned[..., 1::2]
            turned = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
        return torch.cat([turned, kept], dim=-1)

    def pairs(self, head: int, row: int, key: int, against: list[int], scale: float) -> dict[tuple[str, str], float]:
        """What each pair adds to the product of a key less its mean over the keys `against`."""
        at = head * self.g // self.h
        return {
            (of_query, of_key): scale
            * self.family.query_scale
            * float(q[head, row] @ (k[at, key] - k[at, against].mean(0)))
            for of_query, q in self.queries.items()
            for of_key, k in self.keys.items()
        }
