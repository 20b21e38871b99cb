"""A page's size and what it keeps in it; that it names no other file; and what attn says where there can be none."""

import dataclasses
import json
import re
import zlib
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from attn_cli.errors import LimitError
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.views.webpage.build import packed_head, page_html
from attn_cli.views.webpage.contents import Contents
from tests.program import attn
from tests.strategies import Problem, problems
from tests.views.test_hostile import HOSTILE
from tests.views.webpage.recordings import (
    causal_model,
    encoder_decoder,
    layer_of,
    masked,
    recording_of,
    tokens_of,
    with_generated,
    without_softmax,
)

WORDS = " ".join(f"word{at}" for at in range(40))


def lines_of(page: bytes) -> list[bytes]:
    match = re.search(rb'<script type="text/plain" id="data">(.*?)</script>', page, re.DOTALL)
    assert match
    return match[1].split(b"\n")


def unpacked(text: bytes) -> bytes:
    return b64decode(text[1:], validate=True) if text[:1] == b"=" else zlib.decompress(b64decode(text, validate=True))


def document(page: bytes) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(unpacked(lines_of(page)[0]))
    return result


def dense(layer: RecordedLayer, text: bytes) -> np.ndarray:
    """The weights `[n, m]` of a packed head, 0 where it has none."""
    data = np.frombuffer(unpacked(text), np.uint8)
    count = (len(data) - 4 - 6 * layer.n) // 6
    parts = np.split(data, np.cumsum([4 * (layer.n + 1), 4 * count, 2 * count]))
    planes = zip(parts, ("<f4", "<u4", "<i2", "<u2"), strict=True)
    numbers = (part.reshape(int(kind[-1]), -1).T.copy().view(kind)[:, 0] for part, kind in planes)
    (steps, *sums), keys, levels, counts = numbers
    weights = np.zeros((layer.n, layer.m))
    weights[np.repeat(np.arange(layer.n), counts), keys] = levels / steps
    np.testing.assert_allclose(sums, layer.weights(0, slice(None), slice(None)).sum(axis=1), atol=1e-4)
    return weights


def wide(heads: int, layers: int = 1) -> Recording:
    tokens = tokens_of(WORDS, special=False)
    return recording_of(*(layer_of(at, tokens, heads=heads) for at in range(layers)), text=WORDS)


def test_a_short_text_has_every_weight_to_three_digits() -> None:
    for layer in (causal_model().layers[2], without_softmax().layers[0]):
        expected, found = layer.weights(0, slice(None), slice(None)), dense(layer, packed_head(layer, 0, whole=True))
        largest = max(1, np.abs(expected).max() / 32.767)
        np.testing.assert_allclose(found, expected, atol=0.000501 * largest)
        assert np.array_equal(found != 0, np.abs(expected) >= 0.0005)


def test_a_longer_text_has_the_8_heaviest_keys_of_every_row() -> None:
    layer = wide(1).layers[0]
    expected, found = layer.weights(0, slice(None), slice(None)), dense(layer, packed_head(layer, 0, whole=False))
    assert (np.count_nonzero(found, axis=1) <= 8).all()
    for row, whole in zip(found, expected, strict=True):
        assert {*np.flatnonzero(row)} == {at for at in np.argsort(-whole)[:8] if whole[at] >= 0.0005}
        np.testing.assert_allclose(row[row > 0], whole[row > 0], atol=0.000501)


@given(problems())
def test_masks_come_back(problem: Problem) -> None:
    tokens = [tuple(tokens_of("x " * count, special=False)) for count in (problem.q.shape[1], problem.k.shape[1])]
    layer = layer_of(0, *tokens, heads=len(problem.q), rule=masked(problem.rule.mask))
    contents, allowed = Contents(recording_of(layer)), layer.allowed(slice(None), slice(None))
    rows = np.frombuffer(bytes(contents.arrays), "<i4", 3 * layer.n, contents.document["layers"][0]["mask"])
    for (first, last, count), row in zip(rows.reshape(-1, 3), allowed, strict=True):
        seen = np.flatnonzero(row)
        assert count == len(seen) and (not count or (first, last) == (seen[0], seen[-1] + 1))


def test_without_room_the_heads_that_spread_most_are_left_out() -> None:
    recording = wide(12, layers=2)
    whole = page_html(recording)
    page = page_html(recording, len(whole) - sum(map(len, lines_of(whole)[2:])) + 16_000)
    told, there = document(page), np.array([bool(head) for head in lines_of(page)[2:]])
    does = (each for layer in told["layers"] for each in layer["does"])
    cells = [piece["cell"] for line in told["story"] for piece in line if "cell" in piece]
    outs = {at for at, each in enumerate(does) if isinstance(each, dict)}
    named = {0} | outs | {12 * at + head for at, head, *_ in cells}
    assert np.count_nonzero(~there) > 0 and there[[*named]].all()
    spread = np.concatenate([layer.statistics["entropy_bits"] for layer in recording.layers])
    order = [at for at in np.argsort(spread) if at not in named]
    assert there[order].tolist() == sorted(there[order], reverse=True)


def test_a_page_without_room_for_its_text_is_refused() -> None:
    with pytest.raises(LimitError, match="has no room for this text: tokens and numbers alone make"):
        page_html(wide(12), 15_000)


def test_texts_keep_their_order_streams_and_gaps() -> None:
    told = document(page_html(encoder_decoder()))
    assert [layer["stream"] for layer in told["layers"]] == ["encoder", "decoder", "cross"]
    assert [(layer["queries"], layer["keys"]) for layer in told["layers"]] == [(0, 0), (1, 1), (1, 0)]
    text = told["texts"][0]
    joined = "".join(gap + word for gap, word in zip(text["gaps"], text["tokens"], strict=True))
    assert joined.startswith("[CLS] He sat on the river bank,\nand the bank")
    assert [flag & 2 for flag in document(page_html(with_generated()))["texts"][0]["flags"]][-4:] == [0, 2, 2, 2]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_of_the_user_is_markup(name: str) -> None:
    text = HOSTILE[name] + " \ud800"
    tokens = tokens_of(text)
    page = page_html(recording_of(layer_of(0, tokens), text=text), screen=("<pre>screen</pre>", "pre {}"))
    page.decode("utf-8")
    assert page.count(b"<script") == page.count(b"</script") == 2
    assert page.count(b"<style") == 2 and b"default-src 'none'" in page
    title = re.search(rb"<title>(.*?)</title>", page, re.DOTALL)
    assert title and b"<" not in title[1]
    words = json.dumps(document(page), ensure_ascii=False)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", words)


def test_inspect_writes_a_page_with_its_screen_inside(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert attn("inspect", "river bank", "-o", file).code == 0
    told = document(file.read_bytes())
    assert b"<title>river bank" in file.read_bytes() and len(told["texts"][0]["tokens"]) == 2
    assert b"<noscript><pre>" in file.read_bytes()


def test_a_page_of_a_recordings_file_is_that_of_the_run(tmp_path: Path) -> None:
    run, page, again = (tmp_path / name for name in ("run.attn", "page.html", "again.html"))
    assert attn("inspect", "river bank", "-o", run).code == 0
    assert attn("inspect", "-m", run, "-o", page).code == 0
    assert attn("inspect", "river bank", "-o", again).code == 0
    assert page.read_bytes() == again.read_bytes()


def test_layers_without_queries_and_keys_have_numbers_alone() -> None:
    recording = causal_model()
    hollow = dataclasses.replace(recording.layers[1], q=None, k=None)
    page = page_html(dataclasses.replace(recording, layers=(recording.layers[0], hollow, recording.layers[2])))
    assert [bool(head) for head in lines_of(page)[2:]] == [True] * 4 + [False] * 4 + [True] * 4


@pytest.mark.parametrize("option", ["--lines", "--hide=special"])
def test_what_changes_the_cells_makes_a_page_of_the_screen_alone(option: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    done = attn("inspect", "river bank", "-o", file, option)
    assert b"<script" not in file.read_bytes()
    assert "the page is the screen alone, not interactive" in done.errors


def test_a_page_says_the_model_s_name_and_no_path_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "secret-place").mkdir()
    words = tmp_path / "secret-place" / "words.txt"
    words.write_text("he 1 0\nsat 0 1\n")
    page = tmp_path / "page.html"
    run = attn("inspect", "he sat", "-m", words, "-o", page)
    assert run.code == 0, run.errors
    data = page.read_bytes()
    assert b"secret-place" not in data and b"words.txt" in data
    assert document(data)["about"][0] == "words.txt"
