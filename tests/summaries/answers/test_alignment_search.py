"""Of many heads that follow audio, those that follow it most closely are named."""

from attn_cli.model.intervention import HeadPlace
from attn_cli.summaries.answers.alignment_search import SearchedHead, following
from attn_cli.summaries.answers.time_path import Motion


def test_of_more_than_ten_heads_those_of_the_largest_correlation_are_named_by_layer() -> None:
    correlations = [0.91, 0.99, 0.92, 0.98, 0.97, 0.96, 0.95, 0.999, 0.998, 0.997, 0.996, 0.995]
    heads = [
        SearchedHead(HeadPlace(layer, 3, "cross"), Motion(correlation, 0.8), 0.05, Motion(-0.9, -0.8))
        for layer, correlation in enumerate(correlations)
    ]
    counts = SearchedHead(HeadPlace(20, 0, "cross"), Motion(1.0, 0.9), 0.01, Motion(1.0, 0.9))
    assert following([counts, *heads]) == tuple((layer, 3) for layer in (1, *range(3, 12)))
