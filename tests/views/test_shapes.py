"""Nothing is lost in an .npz or .csv where layers differ in shape, or a layer has several modules or calls."""

import io
from pathlib import Path

import numpy as np
import pytest

from attn_cli.call import Place
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.views import data
from tests.cli.test_layers import saved
from tests.program import attn


def summary(layer: int, module: str, call: int, *shape: int) -> Summary:
    heads, n, m = shape
    value = float(100 * layer + 10 * call + len(module))
    place = Place(layer, module, tuple(range(heads)), tuple(range(heads)), call=call)
    queries, keys = (tuple(Token(i, f"t{i}") for i in range(count)) for count in (n, m))
    return Summary(place, queries, keys, {}, (Matrix(np.full(shape, value, np.float32), None),))


def arrays(*summaries: Summary) -> dict[str, np.ndarray]:
    report = Report("matrix", {"model": "it"}, (Prompt("", ()),), summaries)
    with np.load(io.BytesIO(data.to_npz(report))) as archive:
        return {name: archive[name] for name in archive.files}


def test_equal_shapes_are_stacked_and_told_apart() -> None:
    found = arrays(summary(0, "a", 0, 2, 3, 3), summary(0, "a", 1, 2, 3, 3), summary(1, "b", 0, 2, 3, 3))
    assert found["weights"].shape == (3, 2, 3, 3)
    assert (found["layers"].tolist(), found["calls"].tolist()) == ([0, 0, 1], [0, 1, 0])
    assert found["modules"].tolist() == ["a", "a", "b"]


def test_modules_of_one_layer_do_not_overwrite_each_other() -> None:
    found = arrays(
        summary(0, "layers.0", 0, 2, 3, 3), summary(0, "head", 0, 2, 1, 3), summary(1, "layers.1", 0, 2, 3, 3)
    )
    assert found["layer0.layers.0.weights"].max() == 8
    assert found["layer0.head.weights"].max() == 4
    assert found["layer1.weights"].max() == 108
    assert found["layer0.head.tokens"].tolist() == ["t0"]


def test_calls_of_a_module_are_stacked_by_shape() -> None:
    found = arrays(
        summary(0, "a", 0, 2, 3, 3),
        summary(0, "a", 1, 2, 3, 6),
        summary(0, "a", 2, 2, 3, 6),
        summary(1, "a", 0, 4, 3, 3),
    )
    assert found["layer0.weights"].shape == (2, 3, 3)
    assert found["layer0.call1.weights"].shape == (2, 2, 3, 6)
    assert found["layer0.call1.weights"].max() == 21
    assert found["layer1.weights"].shape == (4, 3, 3)


@pytest.mark.parametrize("name", ["swin", "siglip", "albert"])
def test_every_call_of_a_model_is_in_the_file(name: str, tmp_path: Path) -> None:
    options = saved(name, tmp_path)
    assert attn("matrix", *options, "-q", "-o", tmp_path / "all.npz").code == 0
    with np.load(tmp_path / "all.npz") as archive:
        there = sum(archive[key].size for key in archive.files if key.endswith("weights"))
    shown = attn("matrix", *options, "-q", "--json").json["tables"]["matrices"]
    assert there == sum(np.asarray(matrix["weights"]).size for matrix in shown)
    rows = attn("matrix", *options, "-q", "-f", "csv").lines
    assert len(rows) - 1 == there
    assert len({tuple(row.split(",")[: rows[0].split(",").index("score")]) for row in rows}) == len(rows)
