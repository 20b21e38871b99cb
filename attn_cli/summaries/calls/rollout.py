"""Attention rollout: what reaches a token from each other one through all layers up to one of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from attn_cli.arrays import Array, at_least_float32, indices, zeros
from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.kernel.bands.band import Band, row_shares
from attn_cli.selection import Selection
from attn_cli.summaries.calls.derived import DerivedCall
from attn_cli.summaries.report import Report


class Rollout(DerivedCall):
    """A layer's mean weights, whose bands also carry the product of such up to it, half of each from the residual.

    before  the rollout up to the layer `last` `[n, m]`; None and -1 for the first (Abnar and Zuidema 2020, section 3)
    InputError for attention to another text, or without a softmax, and where a layer is missing: no path leads back.
    """

    shows_scores = False  # a mean of weights has none

    def __init__(self, call: Call, last: int, before: Array | None) -> None:
        super().__init__(call, call.queries, call.keys)
        goes_on = call.place.layer <= last + 1 and (before is None or len(before) == self.n)
        if call.queries != call.keys or not call.rule.softmax or not goes_on:
            reason = "a rollout takes a softmax over the text's own tokens in every layer"
            raise InputError(f"{reason}, up to layer {call.place.layer}", "choose a stack, as -l encoder:-1")
        self.mean = zeros((self.n, self.n), at_least_float32(call.like))
        for band in call.bands():
            self.mean[band.start : band.stop, band.first : band.last] += at_least_float32(band.weights).sum(0) / self.h
        tokens = indices(0, self.n, self.mean)
        step = row_shares(self.mean + (tokens[:, None] == tokens[None]))
        self.product = step if before is None else step @ before

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The mean weights of every row, or of `rows`, and as `lengths` what reaches it along all paths."""
        every_head = zeros((self.h, 1, 1), self.mean)
        for own in self.runs(rows):
            weights, lengths = (numbers[own][None] + every_head for numbers in (self.mean, self.product))
            yield Band(own.start, own.stop, 0, self.m, weights, None, weights[..., :0], lengths=lengths)


def of_layers(report: Report, chosen: Selection) -> Report:
    """The report of the chosen layers of a stack, of its last where none is; InputError for a layer that it lacks."""
    layers = [(each.place.stream, each.place.layer) for each in report.summaries]
    selection, total = replace(chosen, layers=chosen.layers or (-1,)), max(layer for _, layer in layers) + 1
    selection.check_layers(layers)
    shown = [each for each in report.summaries if selection.has_layer(each.place.layer, total, each.place.stream)]
    return replace(report, summaries=tuple(shown))
