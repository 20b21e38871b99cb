"""The mistakes that a model can be run with: those of the register of attention, and those of its other modules."""

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
import torch
from transformers import PreTrainedConfig

from attn_cli.arrays import to_numpy
from attn_cli.kernel.definition.positions import Turning
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.lessons.mistakes.register import REGISTER, Mistake, Problem, axis_mistakes
from attn_cli.kernel.lessons.mistakes.rotary import rotary_mistakes
from attn_cli.kernel.lessons.mistakes.tiles import tile_mistakes
from attn_cli.model.stations import PlantedMistake
from attn_cli.sources.huggingface.anatomy.configuration import text_configuration
from attn_cli.sources.huggingface.capture.layer_rule import Products
from attn_cli.sources.huggingface.stations.attention import Attended
from attn_cli.sources.huggingface.stations.other_angles import other_angles

_WHOLE = 512  # tokens up to which mistakes are made that need a whole matrix of weights


def problem_of(config: PreTrainedConfig, layer: int, qkv: Products, rule: Rule, turning: Turning) -> Problem:
    """A layer's right attention on one text, by q, k and v `[h, n, d]`, rule (scale, mask ...) and rotary positions."""
    q, k, v = (to_numpy(x) for x in qkv)
    angles = other_angles(config, layer, len(turning.first), q.shape[-1])
    window = getattr(text_configuration(config), "sliding_window", None)
    other_window = window if isinstance(window, int) and window > 0 else None
    return Problem(q, k, v, rule, q.shape[0] * q.shape[-1], None, turning, angles, other_window)


def attention_mistakes(problem: Problem) -> Iterator[PlantedMistake]:
    """The mistakes known to attn that this attention can have, but those of kernels that take keys in tiles (flash)."""
    for family in REGISTER:
        if family is tile_mistakes or (family is axis_mistakes and problem.q.shape[-2] > _WHOLE):
            continue
        for mistake in family(problem):
            kind = "q_rotated" if family is rotary_mistakes else "heads"
            yield PlantedMistake(mistake.name, mistake.words, kind)


class KernelMistake:
    """A known mistake of attention kernels, made on purpose in every attention call of `layers`; None for all layers.

    planted  the mistake's name, a clause on the likely cause, and where in a layer it changes numbers first, as "heads"
    """

    def __init__(self, config: PreTrainedConfig, planted: PlantedMistake, layers: Collection[int] | None) -> None:
        self.config, self.planted, self.layers = config, planted, layers
        self._families = REGISTER  # from the first call that has the mistake on: those that it belongs to

    def products(self, layer: int, qkv: Products, rule: Rule, turning: Turning) -> Products | None:
        """q, k and v `[h, n, d]` with wrong rotary positions; None for any other mistake, and in other layers."""
        mistake = self._made(layer, qkv, rule, turning) if self.planted.kind == "q_rotated" else None
        if mistake is None or mistake.operands is None:
            return None
        q, k, v = (_tensor(x, qkv[0]) for x in mistake.operands()[:3])
        return q, k, v

    def attended(self, layer: int, qkv: Products, rule: Rule, turning: Turning) -> Attended | None:
        """The wrong q, k, v and rule (scale, mask ...) with which a kernel would attend; None if none is wrong."""
        mistake = None if self.planted.kind == "q_rotated" else self._made(layer, qkv, rule, turning)
        if mistake is None or mistake.operands is None:
            return None
        q, k, v, wrong_rule, after = mistake.operands()
        changed = None if after is None else lambda output: _tensor(after(to_numpy(output)), output)
        return Attended((_tensor(q, qkv[0]), _tensor(k, qkv[0]), _tensor(v, qkv[0])), wrong_rule, changed)

    def output(self, layer: int, qkv: Products, rule: Rule, turning: Turning) -> torch.Tensor | None:
        """The wrong output `[h, n, e]` of a mistake that can't be made by other q, k, v, scale or mask; else None."""
        mistake = None if self.planted.kind == "q_rotated" else self._made(layer, qkv, rule, turning)
        if mistake is None or mistake.operands is not None:
            return None
        whole = self._made(layer, qkv, _in_numpy(rule), turning)
        return None if whole is None else _tensor(whole.output, qkv[0])

    def _made(self, layer: int, qkv: Products, rule: Rule, turning: Turning) -> Mistake | None:
        """The mistake in the problem of a layer; None where the layer has no such one."""
        if self.layers is not None and layer not in self.layers:
            return None
        problem = problem_of(self.config, layer, qkv, rule, turning)
        of_families = {
            family: [each for each in family(problem) if each.name == self.planted.name] for family in self._families
        }
        found = [each for some in of_families.values() for each in some]
        if found:
            self._families = tuple(family for family, some in of_families.items() if some)
        return next((each for each in found if each.words == self.planted.words), found[0] if found else None)


def _in_numpy(rule: Rule) -> Rule:
    sink, bias = (to_numpy(x) if isinstance(x, torch.Tensor) else x for x in (rule.sink, rule.bias))
    return replace(rule, sink=sink, bias=bias)


def _tensor(x: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(x)).to(like)
