"""The numbers of a scan are those that attn heads and attn heads --kinds give for every text by itself."""

from typing import Any

import numpy as np
import pytest

from attn_cli.kernel.cpu import walk as cpu
from attn_cli.scans.numbers import NUMBERS
from attn_cli.scans.results import ci_half_width, holm, two_sided_p
from attn_cli.scans.scan import scan
from attn_cli.scans.show import Scan, open_scan
from attn_cli.selection import Selection
from attn_cli.sources import open_source
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads import STATISTICS, Heads, HeadStatistics
from attn_cli.summaries.reducers.kinds.reducer import KIND_NAMES, HeadKinds, HeadKindsReducer, KindNumbers
from attn_cli.summaries.reducers.kinds.targets import KINDS
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.architectures.tiny import tiny_model
from tests.media import tokenizer
from tests.scans.corpora import sentences, written

LAYERS = Selection(layers=(0, 1))  # the first are enough, and soon there
LINES = [" ".join(sentences(1, length, length, length)) for length in range(2, 26)]
LINES += ["A longer one : the bank , the bank .", *sentences(3, 60, 90)]


@pytest.fixture(scope="module", params=["minilm bands", "minilm compiled", "smollm compiled", "gpt_oss compiled"])
def scanned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Scan, Any]:
    """A scan of LINES, walked by compiled code or in bands, and the model; GPT-OSS has learned sinks and windows."""
    (model, _, walk), folder = request.param.partition(" "), tmp_path_factory.mktemp("scan")
    if model == "gpt_oss":
        tiny_model(model, "tiny").save_pretrained(folder)
        tokenizer().save_pretrained(folder)
    source: Any = open_source(str(folder)) if model == "gpt_oss" else ModelSource(request.getfixturevalue(model))
    with pytest.MonkeyPatch.context() as patch:
        if walk == "bands":
            patch.setattr(cpu, "suits", lambda *_: False)
        scan(source, str(written(folder, LINES)), str(folder / "scan"), selection=LAYERS)
    return open_scan(str(folder / "scan")), source


def test_every_number_is_that_of_a_single_run(scanned: tuple[Scan, ModelSource]) -> None:
    results, source = scanned
    expected: dict[str, list[np.ndarray]] = {}  # by name, of every document the heads of both layers
    kinds: dict[int, list[KindNumbers]] = {}

    def visit(call: Any) -> None:
        summary = reduce(call, HeadStatistics(), judge)
        statistics, numbers = summary.part(Heads), summary.part(HeadKinds).numbers
        shares = zip(KINDS, numbers.share, strict=True)
        named = statistics.statistics | {f"{kind.name}_share": share[:, 0] for kind, share in shares}
        for name, values in named.items():
            expected.setdefault(name, []).append(values)
        kinds.setdefault(call.place.layer, []).append(numbers)

    for line in LINES:
        judge = HeadKindsReducer()
        source.each(source.read([line]), LAYERS, visit)
    assert len(expected) == len(STATISTICS) + len(KINDS)
    for name in filter(expected.get, NUMBERS):
        number = np.reshape(expected[name], (len(LINES), -1))
        # scores are sums of products of tens, whose last digits depend on the batch
        rough = 1e-5 if name == "max_score" else 1e-6
        np.testing.assert_allclose(results.values(name), number, rtol=rough, atol=rough, err_msg=name)
    means = [KindNumbers.together(each).mean for each in kinds.values()]
    assert results.kind == [KIND_NAMES[kind] for mean in means for kind in mean.kind.tolist()]
    for name in ("share", "non_sink_weight", "row_support", "control"):
        values = np.concatenate([getattr(mean, name) for mean in means], axis=1)
        np.testing.assert_allclose(results.kinds[name], values, atol=1e-5, err_msg=name)
    of_first = np.concatenate([mean.first_is_sink for mean in means])
    np.testing.assert_array_equal(results.kinds["first_is_sink"][0], of_first)


def test_peaks_are_the_strongest_rows_off_the_sinks(scanned: tuple[Scan, ModelSource]) -> None:
    results, source = scanned
    weights, queries, keys = (results.values(f"peak_{name}") for name in ("weight", "query", "key"))
    for document, line in enumerate(LINES):
        found: list[np.ndarray] = []
        prompt = source.read([line])[0]
        source.each([prompt], LAYERS, lambda call, to=found: to.append(reduce(call, MatrixOf()).part(Matrix).weights))
        special = np.array([token.special for token in prompt.tokens])
        sinks = special if special.any() else np.arange(len(special)) == 0
        for head, cells in enumerate(np.concatenate(found)):
            rows = np.where(sinks[cells.argmax(1)] | special, 0, cells.max(1))
            assert np.nan_to_num(weights[document, head]) == pytest.approx(rows.max(), abs=1e-5)
            if rows.max() > 0:
                query, key = int(queries[document, head]), int(keys[document, head])
                assert cells[query, key] == pytest.approx(rows.max(), abs=1e-5) and not sinks[key]


# Two-sided 5 % points, from the tables that textbooks print.
POINTS = {1: 12.706, 2: 4.303, 3: 3.182, 5: 2.571, 10: 2.228, 30: 2.042, 60: 2.000, 120: 1.980, 10**6: 1.960}


@pytest.mark.parametrize("freedom", POINTS)
def test_points_of_published_tables(freedom: int) -> None:
    assert ci_half_width(1.0, freedom + 1) * np.sqrt(freedom + 1) == pytest.approx(POINTS[freedom], abs=6e-4)
    assert two_sided_p(POINTS[freedom], freedom) == pytest.approx(0.05, abs=5e-5)


def test_ends_and_what_is_no_number() -> None:
    chances = two_sided_p([np.inf, np.nan, 2.0, 0.0], [5, 5, 0, 5])
    assert chances.tolist() == pytest.approx([0, np.nan, np.nan, 1], nan_ok=True)
    assert np.isnan(ci_half_width([1.0, 1.0], [1, 0])).all()
    assert ci_half_width(0.0, 9) == 0


def test_holm_is_the_smallest_level_at_which_each_would_be_refused() -> None:
    chances = np.random.default_rng(0).random(12) ** 4
    adjusted = holm(chances)
    for level in (0.001, 0.01, 0.05, 0.2, 0.9):
        refused, left = np.zeros(12, bool), 12
        for at in np.argsort(chances):
            if chances[at] > level / left:
                break
            refused[at], left = True, left - 1
        assert ((adjusted <= level) == refused).all()
    assert holm([np.nan, 0.01]).tolist() == pytest.approx([np.nan, 0.01], nan_ok=True)
