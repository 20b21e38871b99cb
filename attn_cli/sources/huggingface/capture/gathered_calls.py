"""The calls of a model that several processes share, each with the heads of all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import distributed

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call, Place
from attn_cli.errors import LoadError
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token


@dataclass(frozen=True, eq=False)
class _Part:
    """What one process has of a call: `q` `[h, n, d]`, `k` `[g, m, d]`, `v` `[g, m, e]` of its own heads."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    rule: Rule
    place: Place
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]

    @property
    def of(self) -> tuple[str, int, str, int, int]:
        """The call that it is a part of."""
        return self.place.stream, self.place.layer, self.place.name, self.place.call, self.place.text


def each_gathered(run: Callable[[Callable[[Call], None]], None], visit: Callable[[Call], None]) -> None:
    """Run a pass in every process of a tensor-parallel model; then `visit` gets in each the calls with all heads.

    run  runs the pass, and shows the function it is given the attention calls with this process's heads

    An error of one process is raised there at once; the others wait for it in the layer's sum until torchrun ends them.
    Raises LoadError for calls of which weights alone are seen, and for a bias of each head.
    """
    parts: list[_Part] = []

    def keep(call: Call) -> None:
        bias = call.rule.bias
        if not isinstance(call, AttentionCall) or (bias is not None and getattr(bias, "ndim", 3) > 2):
            raise LoadError(f"{call.place.name} can't be put together from several processes", "run it in one")
        q, k, v = (torch.as_tensor(x).detach().clone() for x in (call.q, call.k, call.v))
        parts.append(_Part(q, k, v, call.rule, call.place, call.queries, call.keys))

    run(keep)
    told: list[list[_Part]] = [[] for _ in range(distributed.get_world_size())]
    distributed.all_gather_object(told, parts)
    for same in _by_call([part for of_rank in told for part in of_rank]):
        visit(_together(same))


def _by_call(parts: Sequence[_Part]) -> list[list[_Part]]:
    """The parts of each call, in the order in which they were seen; those of the same heads once."""
    calls: dict[tuple[str, int, str, int, int], list[_Part]] = {}
    for part in parts:
        same = calls.setdefault(part.of, [])
        if all(other.place.heads != part.place.heads for other in same):
            same.append(part)
    return sorted(calls.values(), key=lambda same: (same[0].place.text, same[0].place.layer, same[0].place.call))


def _together(parts: Sequence[_Part]) -> AttentionCall:
    """One call of the heads of all parts, by their numbers."""
    parts = sorted(parts, key=lambda part: part.place.heads)
    first = parts[0]
    heads, groups = (
        tuple(number for part in parts for number in getattr(part.place, name)) for name in ("heads", "groups")
    )
    sinks = [part.rule.sink for part in parts]
    rule = first.rule if sinks[0] is None else replace(first.rule, sink=torch.cat([torch.as_tensor(x) for x in sinks]))
    q, k, v = (torch.cat([getattr(part, name) for part in parts]) for name in ("q", "k", "v"))
    return AttentionCall(q, k, v, rule, replace(first.place, heads=heads, groups=groups), first.queries, first.keys)
