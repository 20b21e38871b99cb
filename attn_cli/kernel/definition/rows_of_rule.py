"""A part of a rule as a rule of its own: for one row of a walk, and for a step of decoding that knows no later keys."""

from attn_cli.kernel.definition.masks import Cropped, Open
from attn_cli.kernel.definition.rule import Rule


def rule_of_rows(rule: Rule, start: int, stop: int, m: int) -> Rule:
    """The rule of queries start:stop alone, which are then numbered from 0, against the first m keys."""
    mask = rule.mask if start == 0 or isinstance(rule.mask, Open) else Cropped(rule.mask, start, 0, m)
    return Rule(rule.scale, rule.softcap, rule.bias_of(start, stop, 0, m), mask, rule.sink, rule.softmax)
