"""`attn scale`: the saturated softmax of the worked examples, and variances that are what theory says."""

import numpy as np
import pytest

from attn_cli.kernel.lessons.scale import spread
from tests.cli.test_worked_examples import FOUR_DIGITS
from tests.program import attn, refused


def test_growing_scores_saturate_the_softmax() -> None:
    rows = attn("scale", "--factors", "0.125,1", "--json").json["tables"]["saturation"]
    assert rows[0]["scores"] == [6.25, 5.625, 5]
    np.testing.assert_allclose(rows[0]["weights"], [0.5489, 0.2938, 0.1573], **FOUR_DIGITS)
    np.testing.assert_allclose(rows[1]["weights"], [0.9933, 0.0067, 0.0000], **FOUR_DIGITS)
    w = np.array(rows[0]["weights"])
    assert rows[0]["entropy_bits"] == pytest.approx(-(w * np.log2(w)).sum())
    assert rows[0]["slope"] == pytest.approx((w * (1 - w)).max())
    other = attn("scale", "--scores", "2,1,0.5", "--factors", "1", "--json").json["tables"]
    np.testing.assert_allclose(other["saturation"][0]["weights"], [0.6285, 0.2312, 0.1402], **FOUR_DIGITS)


@pytest.mark.parametrize("d", [1, 16, 256])
def test_the_variance_of_a_product_is_d_and_1_after_the_scale(d: int) -> None:
    found = spread(d, keys=16, samples=4000, seed=3)
    # 4,000 queries: the variance given q is |q|^2, whose mean has a relative error of sqrt(2 / (4000 d)) at most 2.3 %,
    # and 64,000 products of kurtosis up to 9 add 1.2 %: 10 % are four of these errors.
    assert found.variance == pytest.approx(d, rel=0.1)
    assert found.scaled_variance == pytest.approx(found.variance / d)


def test_without_the_scale_long_vectors_put_all_weight_on_one_key() -> None:
    short, long = (spread(d, keys=16, samples=200, seed=0) for d in (1, 1024))
    assert short.top_weight == short.scaled_top_weight < 0.4
    assert long.top_weight > 0.9
    assert long.scaled_top_weight < 0.4


def test_wrong_numbers_are_said() -> None:
    refused(attn("scale", "--scores", "a,b"), 2, "--scores 'a,b' is not finite numbers")
    refused(attn("scale", "--factors", "1,inf"), 2, "not finite")
    refused(attn("scale", "--dims", "0"), 2, "--dims 0 is not a valid size")
