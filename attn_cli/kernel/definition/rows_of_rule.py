"""The rule of some rows alone: for one row of a matrix, and for a step of decoding that has no later keys."""

from attn_cli.kernel.definition.masks import Open, Submask
from attn_cli.kernel.definition.rule import Rule


def rule_of_rows(rule: Rule, start: int, stop: int, m: int) -> Rule:
    """The rule of queries start:stop alone, numbered from 0 again, against the first m keys."""
    mask = rule.mask if start == 0 or isinstance(rule.mask, Open) else Submask(rule.mask, start, 0, m)
    return Rule(rule.scale, rule.softcap, rule.bias_of(start, stop, 0, m), mask, rule.sink, rule.softmax)
