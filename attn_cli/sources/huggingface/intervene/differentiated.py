"""A text's last rows once more, with numbers in their attention of which an answer's derivatives are taken."""

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch.utils.checkpoint import checkpoint

from attn_cli.model.intervention import AttentionLayer, Intervention
from attn_cli.model.kv_cache import CacheChange
from attn_cli.sources.huggingface.capture.layer_rule import Products
from attn_cli.sources.huggingface.intervene.baseline_run import CachedAttention
from attn_cli.sources.huggingface.intervene.batch import InterventionBatch


class DifferentiatedRows(InterventionBatch):
    """A run of the last rows whose attention depends on numbers, such as a gate on each head's output.

    Derivatives of its answer's log p are taken by these numbers, `variables`.
    """

    @property
    @abstractmethod
    def variables(self) -> list[torch.Tensor]:
        """The numbers by which derivatives are taken, as tensors; known once all layers ran."""

    @abstractmethod
    def output(self, at: AttentionLayer, past: CachedAttention, own: Products, allowed: torch.Tensor) -> torch.Tensor:
        """The output `[1, h, r, e]` of the layer `at`, in its last r rows, as a function of the numbers in `variables`.

        past     keys and values of the baseline
        own      queries, keys and values of these rows
        allowed  which of all m keys the rows may attend to, `[r, m]` or `[h, r, m]`
        """


_FEW_CELLS = 2**14  # of a layer, whose weights are held until derivatives are taken: 64 KiB, and keys as often
_GATE = 0.9  # there the derivative foresees a bend on the way to 0: the heads chosen hold 2 % more of the effects


class GatedRows(DifferentiatedRows):
    """Every head's output times a gate of 0.9; log p of the answer derived by a gate is about what the head adds to it.

    gates  by layer and stack the gates of its heads `[1, h, 1, 1]`, once it ran
    """

    def __init__(self, texts: int, *, first: int) -> None:
        super().__init__((Intervention(),), None, texts, first=first)
        self.gates: dict[tuple[int, str], torch.Tensor] = {}

    @property
    def variables(self) -> list[torch.Tensor]:
        """The gates of all layers that ran, `[1, h, 1, 1]` each."""
        return list(self.gates.values())

    def output(self, at: AttentionLayer, past: CachedAttention, own: Products, allowed: torch.Tensor) -> torch.Tensor:
        """The layer's own output `[1, h, r, e]` in its last r rows, times its gates, which are 0.9.

        past, own  keys and values of the baseline; queries, keys and values of these rows
        allowed    which of all m keys the rows may attend to, `[r, m]` or `[h, r, m]`
        """
        output = _attention(past, own, allowed)
        shape = (1, output.shape[1], 1, 1)
        gates = torch.full(shape, _GATE, dtype=output.dtype, device=output.device, requires_grad=True)
        return output * self.gates.setdefault((at.layer, at.stream), gates)


class PartlyWindowed(DifferentiatedRows):
    """The output of each head as a mix of two: that over all keys, and that over a window of them, by a share.

    windows  changes of a KV cache that set a window, no two of the same head
    shares   for each of these a number from 0, no window, to 1, the window alone
    """

    def __init__(
        self, windows: Sequence[CacheChange], shares: Sequence[float], rows: Sequence[int] | None, texts: int, *,
        first: int,
    ) -> None:  # fmt: skip
        super().__init__((Intervention(cache=tuple(windows)),), rows, texts, first=first)
        self.windows = windows
        self.shares = torch.tensor(shares, dtype=torch.float32, requires_grad=True)

    @property
    def variables(self) -> list[torch.Tensor]:
        """The shares as one tensor `[windows]`, by which derivatives are taken: 0 without a window, 1 for it alone."""
        return [self.shares]

    def output(self, at: AttentionLayer, past: CachedAttention, own: Products, allowed: torch.Tensor) -> torch.Tensor:
        """The output `[1, h, r, e]` of each head mixed: 1 - share of that without its window, share of that with it.

        past, own  keys and values of the baseline; queries, keys and values of the last r rows
        allowed    which of all m keys these rows may attend to, `[r, m]` or `[h, r, m]`
        """
        r, m = allowed.shape[-2:]
        masks = self.masks(at, r, m)
        window = None if masks is None else masks[0]
        if window is None:
            return _attention(past, own, allowed)
        places = torch.arange(m, device=allowed.device)
        narrow = allowed & window.allowed(places[:r, None], places[None])
        shares = self._of_heads(at).to(own[0].device)[:, None, None]
        return _attention(past, own, allowed, narrow, shares)

    def _of_heads(self, at: AttentionLayer) -> torch.Tensor:
        """The share of every query head of a layer, 0 where it has no window `[h]`."""
        shares = [torch.zeros(())] * len(at.groups)
        for share, change in zip(self.shares, self.windows, strict=True):
            if (change.layer, change.stream) != (at.layer, at.stream):
                continue
            for head, group in enumerate(at.groups):
                if change.key_heads is None or group in change.key_heads:
                    shares[head] = share
        return torch.stack(shares)


def _attention(
    past: CachedAttention,
    own: Products,
    allowed: torch.Tensor,
    narrow: torch.Tensor | None = None,
    shares: torch.Tensor | None = None,
) -> torch.Tensor:
    """The output `[1, h, r, e]` of the last r rows, by operations that have derivatives.

    narrow, shares  other cells that may be attended to, and by which share `[h, 1, 1]` the output with these is taken

    Many weights are computed again when derivatives are taken, layer by layer: those of all layers are never held at
    once.
    """

    def computed(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        (h, r, d), g = query.shape, key.shape[0]
        first = past.keys.shape[1] - r
        k = torch.cat([past.keys[:, :first].float(), key], dim=1)  # [g, m, d]
        v = torch.cat([past.values[:, :first].float(), value], dim=1)
        rule = past.rule_from(first)
        scores = rule.capped(((query * rule.scale).reshape(g, h // g * r, d) @ k.mT).view(h, r, -1))
        bias = rule.bias_of(0, r, 0, first + r)
        scores = scores if bias is None else scores + bias

        def output(cells: torch.Tensor) -> torch.Tensor:
            seen = scores.masked_fill(~cells, -torch.inf)
            if rule.sink is not None:
                seen = torch.cat([seen, rule.sink[:, None, None].expand(h, r, 1)], dim=-1)
            weights = seen.softmax(-1)[..., : first + r]
            return (weights.reshape(g, h // g * r, -1) @ v).view(h, r, -1)

        whole = output(allowed)
        return whole if narrow is None or shares is None else torch.lerp(whole, output(narrow), shares)

    query, key, value = (x[0].float() for x in own)
    if query.shape[0] * past.keys.shape[1] * query.shape[1] <= _FEW_CELLS:
        return computed(query, key, value)[None]
    return checkpoint(computed, query, key, value, use_reentrant=False, preserve_rng_state=False)[None]
