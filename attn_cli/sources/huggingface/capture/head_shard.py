"""The heads of a layer that a process computes, where several share a model by tensor parallelism."""

from typing import NamedTuple

from torch import nn

from attn_cli.sources.huggingface.compat import tensor_parallel_place


class HeadShard(NamedTuple):
    """Which of a layer's heads this process has, where several share a model by tensor parallelism.

    rank, ranks  the number of this process, from 0, and how many they are
    heads, key_heads  of the layer in all processes, as its configuration says; 0 where it doesn't
    """

    rank: int = 0
    ranks: int = 1
    heads: int = 0
    key_heads: int = 0

    @classmethod
    def of(cls, model: nn.Module, module: nn.Module) -> "HeadShard":
        """The shard of an attention module of the model; rank 0 of 1 where the model is not shared."""
        rank, ranks = tensor_parallel_place(model)
        config = getattr(module, "config", None)
        if ranks == 1 or config is None:
            return cls()
        heads = getattr(config, "num_attention_heads", 0) or 0
        return cls(rank, ranks, heads, getattr(config, "num_key_value_heads", None) or heads)

    def first_head(self, h: int) -> int:
        """The model's number of the first of the h heads in this process; 0 where all processes have all heads."""
        return self.rank * h if h * self.ranks == self.heads else 0

    def first_group(self, g: int) -> int:
        """The model's number of the first of the g key heads in this process; 0 where every process has all of them."""
        return self.rank * g if g * self.ranks == self.key_heads else 0

    def total(self, h: int) -> int:
        """The number of the layer's heads over all processes of tensor parallelism, of which this one has h."""
        return self.heads if h * self.ranks == self.heads else h
