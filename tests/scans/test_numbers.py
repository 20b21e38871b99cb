"""The numbers of a scan are those that attn heads gives for every text, put together by hand."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("datasketches")
pytest.importorskip("pyarrow")
from pyarrow import parquet

from attn_cli.kernel.cpu import walk as cpu
from attn_cli.scans.run.scan import scan
from attn_cli.selection import Selection
from attn_cli.sources.corpora import Document, open_corpus
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.answers.kinds import judge_heads
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads import STATISTICS, Heads, HeadStatistics
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds, KindNumbers
from attn_cli.summaries.reducers.kinds.targets import KINDS
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.program import environment
from tests.scans.corpora import sentences, written

LAYERS = Selection(layers=(0, 1))  # the first are enough, and soon there
LINES = [*sentences(7, 3, 30), "A longer one : the bank , the bank ."]


@pytest.fixture(scope="module", params=["minilm compiled", "minilm bands", "smollm compiled"])
def scanned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ModelSource]:
    """A scan of LINES, walked by compiled code or in bands, and the model."""
    model, _, walk = request.param.partition(" ")
    source, folder = ModelSource(request.getfixturevalue(model)), tmp_path_factory.mktemp("scan")
    with pytest.MonkeyPatch.context() as patch:
        if walk == "bands":
            patch.setattr(cpu, "suits", lambda *_: False)
        scan(source, str(written(folder, LINES)), str(folder / "scan"), selection=LAYERS)
    return folder / "scan", source


def test_texts_stand_side_by_side_without_padding(minilm: LoadedModel, tmp_path: Path) -> None:
    source, shapes = ModelSource(minilm), list[tuple[int, ...]]()
    scan(source, str(written(tmp_path, LINES)), str(tmp_path / "once"), selection=LAYERS)  # finds out that it may

    def note(_: Any, args: Any, kwargs: dict[str, Any]) -> None:
        shapes.append((*kwargs["input_ids"].shape, int(kwargs["position_ids"].max())))

    hook = minilm.model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        scan(source, str(written(tmp_path, LINES)), str(tmp_path / "again"), selection=LAYERS)
    finally:
        hook.remove()
    lengths = [len(text.ids) for text in source.encode(LINES)]
    assert len(shapes) < len(LINES)
    assert all(texts == 1 and rows % 128 == 0 for texts, rows, _ in shapes)
    assert sum(lengths) <= sum(rows for _, rows, _ in shapes)
    assert max(last for *_, last in shapes) == max(lengths) - 1


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    return parquet.read_table(folder / f"{name}.parquet").to_pylist()


def test_they_are_the_means_of_what_every_text_gives(scanned: tuple[Path, ModelSource]) -> None:
    folder, source = scanned
    of_texts: dict[int, list[Heads]] = {}
    kinds: dict[int, list[HeadKinds]] = {}
    for line in LINES:
        prompts = source.read([line])

        def visit(call: Any) -> None:
            of_texts.setdefault(call.place.layer, []).append(reduce(call, HeadStatistics()).part(Heads))

        source.each(prompts, LAYERS, visit)
        for summary in judge_heads(source, prompts, 0, LAYERS):
            kinds.setdefault(summary.place.layer, []).append(summary.part(HeadKinds))
    for row in table(folder, "statistics"):
        values = np.array([of_text.statistics[row["statistic"]][row["head"]] for of_text in of_texts[row["layer"]]])
        known = values[~np.isnan(values)]
        assert row["documents"] == len(known)
        if len(known):
            wanted = [known.mean(), known.var(ddof=1), known.min(), known.max(), np.median(known)]
            names = ("mean", "variance", "minimum", "maximum", "q50")
            np.testing.assert_allclose([row[name] for name in names[:4]], wanted[:4], rtol=1e-5, atol=2e-6)
            rounding = 1e-5 * np.abs(known).max()  # of scores, in the order of sums of a batch
            assert known.min() - rounding <= row["q50"] <= known.max() + rounding
    for row in table(folder, "kinds"):
        number = [kind.name for kind in KINDS].index(row["kind"])
        parts = kinds[row["layer"]]
        of_all = KindNumbers.together([part.numbers for part in parts]).mean
        for name in ("weight", "share", "non_sink_weight", "row_support", "control"):
            expected = getattr(of_all, name)[number, row["head"]]
            # what is left of a row beside its sink may be next to nothing: shares of it are rough
            close = {"rtol": 1e-3, "atol": 2e-3 if row["kind"] == "window" else 1e-4}
            np.testing.assert_allclose(np.nan if row[name] is None else row[name], expected, **close)
        chance = np.nan if row["baseline"] is None else row["baseline"]
        np.testing.assert_allclose(chance, of_all.baseline[number], rtol=1e-9)
        assert row["rows"] == of_all.rows[number]


def test_distances_positions_tokens_and_examples_are_those_of_whole_matrices(scanned: tuple[Path, ModelSource]) -> None:
    folder, source = scanned
    prompts = [source.read([line])[0] for line in LINES]
    weights: list[np.ndarray] = []
    for prompt in prompts:
        source.each([prompt], Selection(layers=(1,)), lambda call: weights.append(_weights(call)))
    layer = max(row["layer"] for row in table(folder, "heads"))
    total = sum(each[0].sum() for each in weights)
    for row in table(folder, "distances"):
        if (row["layer"], row["head"]) == (layer, 0):
            near = -np.inf if row["nearest"] is None else row["nearest"]
            far = np.inf if row["farthest"] is None else row["farthest"]
            inside = sum(_between(each[0], near, far) for each in weights)
            np.testing.assert_allclose(row["weight"], inside / total, atol=1e-6)
    for row in table(folder, "positions"):
        if (row["layer"], row["head"]) == (layer, 0):
            inside = sum(
                each[0][:, row["first"] : None if row["last"] is None else 1 + row["last"]].sum() for each in weights
            )
            np.testing.assert_allclose(row["weight"], inside / total, atol=1e-6)
    to: dict[int, int] = {}
    for prompt, each in zip(prompts, weights, strict=True):
        for key in each[0].argmax(axis=1).tolist():
            to[prompt.tokens[key].id or 0] = to.get(prompt.tokens[key].id or 0, 0) + 1
    counted = {row["id"]: row["count"] for row in table(folder, "tokens")
               if (row["layer"], row["head"], row["side"]) == (layer, 0, "to")}  # fmt: skip
    assert counted == to
    for row in table(folder, "examples"):
        if row["layer"] == layer:
            cell = weights[row["document"]][row["head"], row["query"], row["key"]]
            np.testing.assert_allclose(row["weight"], cell, atol=1e-5)
            assert LINES[row["document"]] == row["text"] or row["text"] in LINES[row["document"]]
            if row["kind"] == "previous":
                own = weights[row["document"]][row["head"]].diagonal(-1)
                top = weights[row["document"]][row["head"]].argmax(axis=1)[1:] == np.arange(len(own))
                np.testing.assert_allclose(row["weight"], own[top].max(), atol=1e-5)


def _weights(call: Any) -> np.ndarray:
    part = reduce(call, MatrixOf()).part(Matrix)
    assert part is not None
    return np.asarray(part.weights)


def _between(weights: np.ndarray, nearest: float, farthest: float) -> float:
    distance = np.arange(len(weights))[:, None] - np.arange(len(weights))
    return float(weights[(distance >= nearest) & (distance <= farthest)].sum())


def test_statistics_of_every_name_are_there(scanned: tuple[Path, ModelSource]) -> None:
    folder, _ = scanned
    assert {row["statistic"] for row in table(folder, "statistics")} == {each.name for each in STATISTICS}


# A statistic is added as the guide says, before anything else is imported, and a corpus is scanned.
_ADDED = """
import sys
from pathlib import Path
from functools import partial
from attn_cli.summaries.reducers.heads import KEYS, back, statistic
KEYS["2 back"] = partial(back, 2)
@statistic("")
def weight_2_back(rows): return rows.mean(rows.on("2 back"))
from attn_cli.scans.run.scan import scan
from attn_cli.selection import Selection
from attn_cli.sources import open_source
scan(open_source(sys.argv[1]), sys.argv[2], sys.argv[3], selection=Selection(layers=(1,)))
"""


def test_a_statistic_that_is_added_is_in_the_tables_of_a_scan(minilm: Any, minilm_folder: Any, tmp_path: Path) -> None:
    file, source, lines = tmp_path / "lines.txt", ModelSource(minilm), LINES[:6]
    file.write_text("\n".join(lines))
    scanning = [sys.executable, "-c", _ADDED, str(minilm_folder), str(file), str(tmp_path / "scan")]
    subprocess.run(scanning, env=environment(), check=True, timeout=600)
    of_texts: list[np.ndarray] = []
    for line in lines:
        source.each(source.read([line]), Selection(layers=(1,)), lambda call: of_texts.append(_weights(call)))
    rows = {(row["statistic"], row["head"]): row for row in table(tmp_path / "scan", "statistics")}
    columns = {row["head"]: row for row in table(tmp_path / "scan", "heads")}
    for head in range(len(of_texts[0])):
        two_back = rows["weight_2_back", head]["mean"]
        expected = np.mean([each[head].diagonal(-2).sum() / len(each[head]) for each in of_texts])
        assert two_back == columns[head]["weight_2_back"] == pytest.approx(expected, abs=1e-5)


def test_the_shares_of_fields_and_roles_are_those_of_their_tokens(minilm: Any, tmp_path: Path) -> None:
    source, file = ModelSource(minilm), tmp_path / "chats.jsonl"
    messages = [[("system", "be brief ."), ("user", "the river or the bank ?"), ("user", "go on")],
                [("user", "a boat"), ("assistant", "swim to the bank .")]]  # fmt: skip
    lines = [{"messages": [{"role": role, "content": text} for role, text in each]} for each in messages]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    scan(source, str(file), str(tmp_path / "scan"), selection=Selection(layers=(0,)))
    inside: dict[str, np.ndarray] = {}
    rows = 0
    for document in open_corpus([str(file)]).documents():
        assert isinstance(document, Document)
        prompt, weights = source.read([document.text])[0], []
        source.each([prompt], Selection(layers=(0,)), lambda call, to=weights: to.append(_weights(call)))
        rows += len(prompt.tokens)
        for at, token in enumerate(prompt.tokens):
            for field in document.fields:
                if not token.special and field.start <= token.start < field.end:
                    inside[field.name] = inside.get(field.name, 0) + weights[0][:, :, at].sum(axis=1)
    shares = {(row["part"], row["head"]): row["weight"] for row in table(tmp_path / "scan", "parts")}
    assert set(inside) == {"system", "user", "assistant"} and len(shares) == 3 * 12
    for (part, head), share in shares.items():
        np.testing.assert_allclose(share, inside[part][head] / rows, atol=1e-5)
