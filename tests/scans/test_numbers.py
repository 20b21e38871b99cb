"""The numbers of a scan are those that attn heads and attn heads --kinds give for every text by itself."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
from pyarrow import parquet

from attn_cli.kernel.cpu import walk as cpu
from attn_cli.scans.scan import scan
from attn_cli.scans.show import Scan, open_scan
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads import STATISTICS, Heads, HeadStatistics
from attn_cli.summaries.reducers.kinds.reducer import KIND_NAMES, HeadKinds, HeadKindsReducer, KindNumbers
from attn_cli.summaries.reducers.kinds.targets import KINDS
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.program import environment
from tests.scans.corpora import sentences, written

LAYERS = Selection(layers=(0, 1))  # the first are enough, and soon there
LINES = [" ".join(sentences(1, length, length, length)) for length in range(2, 26)]
LINES += ["A longer one : the bank , the bank .", *sentences(3, 60, 90)]


@pytest.fixture(scope="module", params=["minilm compiled", "minilm bands", "smollm compiled"])
def scanned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Scan, Any]:
    """A scan of LINES, walked by compiled code or in bands, and the model."""
    model, _, walk = request.param.partition(" ")
    source, folder = ModelSource(request.getfixturevalue(model)), tmp_path_factory.mktemp("scan")
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
        named = statistics.statistics | {
            f"{kind.name}_share": share[:, 0] for kind, share in zip(KINDS, numbers.share, strict=True)
        }
        for name, values in named.items():
            expected.setdefault(name, []).append(values)
        kinds.setdefault(call.place.layer, []).append(numbers)

    for line in LINES:
        judge = HeadKindsReducer()
        source.each(source.read([line]), LAYERS, visit)
    assert len(expected) == len(STATISTICS) + len(KINDS)
    for name, values in expected.items():
        number = np.reshape(values, (len(LINES), -1))
        # scores are sums of products of tens, whose last digits depend on the batch
        rough = 1e-5 if name == "max_score" else 1e-6
        np.testing.assert_allclose(results.values(name), number, rtol=rough, atol=rough, err_msg=name)
    means = [KindNumbers.together(each).mean for each in kinds.values()]
    assert results.kind == [KIND_NAMES[kind] for mean in means for kind in mean.kind.tolist()]
    for name in ("non_sink_weight", "row_support", "control"):
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


# A statistic is added as the guide says, before anything else is imported, and a corpus is scanned.
_ADDED = """
import sys
from functools import partial
from attn_cli.summaries.reducers.heads import KEYS, back, statistic
KEYS["2 back"] = partial(back, 2)
@statistic()
def weight_2_back(rows): return rows.mean(rows.on("2 back"))
from attn_cli.scans.scan import scan
from attn_cli.selection import Selection
from attn_cli.sources import open_source
scan(open_source(sys.argv[1]), sys.argv[2], sys.argv[3], selection=Selection(layers=(1,)))
"""


def test_a_statistic_that_is_added_is_a_column_of_a_scan(minilm: Any, minilm_folder: Any, tmp_path: Path) -> None:
    file, source, lines = tmp_path / "lines.txt", ModelSource(minilm), LINES[4:10]
    file.write_text("\n".join(lines))
    scanning = [sys.executable, "-c", _ADDED, str(minilm_folder), str(file), str(tmp_path / "scan")]
    subprocess.run(scanning, env=environment(), check=True, timeout=600)
    found: list[np.ndarray] = []
    for line in lines:
        source.each(
            source.read([line]),
            Selection(layers=(1,)),
            lambda call: found.append(reduce(call, MatrixOf()).part(Matrix).weights),
        )
    expected = [head.diagonal(-2).sum() / len(head) for weights in found for head in weights]
    column = parquet.read_table(tmp_path / "scan" / "part-00000.parquet")["weight_2_back"].to_numpy()
    np.testing.assert_allclose(column, expected, atol=1e-5)
