"""A page's size and what it keeps in it; that it names no other file; and what attn says where there can be none."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.errors import LimitError
from attn_cli.recording import Recording
from attn_cli.views.webpage.build import StaticScreen, page_html
from tests.program import attn
from tests.views.test_hostile import HOSTILE
from tests.views.webpage.recordings import (
    causal_model,
    encoder_decoder,
    layer_of,
    recording_of,
    tokens_of,
    with_generated,
)
from tests.views.webpage.test_packing import unpacked

WORDS = " ".join(f"word{at}" for at in range(40))


def lines_of(page: bytes) -> list[bytes]:
    match = re.search(rb'<script type="text/plain" id="data">(.*?)</script>', page, re.DOTALL)
    assert match
    return match[1].split(b"\n")


def document(page: bytes) -> dict[str, Any]:
    stream = unpacked(lines_of(page)[0])
    length = int.from_bytes(stream[:4], "little")
    result: dict[str, Any] = json.loads(stream[4 : 4 + length])
    return result


def wide(heads: int, layers: int = 1) -> Recording:
    tokens = tokens_of(WORDS, special=False)
    return recording_of(*(layer_of(at, tokens, heads=heads) for at in range(layers)), text=WORDS)


def test_the_smallest_threshold_that_fits_is_chosen() -> None:
    recording = wide(12, layers=2)
    sizes = {}
    for size in (270_000, 88_000, 73_000):
        page = page_html(recording, size)
        assert len(page) <= size
        sizes[size] = document(page)
    thresholds = [each["threshold"] for each in sizes.values()]
    assert thresholds == sorted(thresholds) and thresholds[0] < thresholds[-1]
    kept = [each["kept"] for each in sizes.values()]
    assert kept == sorted(kept, reverse=True) and kept[-1] < 1
    assert not any(each["absent"] for each in sizes.values())


def test_without_room_the_heads_that_spread_most_are_pictures_alone() -> None:
    recording = wide(12, layers=2)
    smallest = len(page_html(recording, 10**6)) - sum(map(len, lines_of(page_html(recording, 10**6))[1:]))
    page = page_html(recording, smallest + 1500)
    told, heads = document(page), lines_of(page)[1:]
    assert 0 < told["absent"] == heads.count(b"") < 24
    entropy = np.concatenate([layer.statistics["entropy_bits"] for layer in recording.layers])
    there = np.array([bool(head) for head in heads])
    assert entropy[there].max() <= entropy[~there].min()


def test_a_page_without_room_for_its_text_is_refused() -> None:
    with pytest.raises(LimitError, match="has no room for this text: tokens and numbers alone make"):
        page_html(wide(12), 15_000)


def test_a_long_text_has_the_heaviest_keys_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attn_cli.views.webpage.build._LONG", 39)
    told = document(page_html(wide(2)))
    assert (told["threshold"], told["rows"]) == (None, "the 16 largest weights of every row")
    assert told["kept"] < 1


def test_texts_keep_their_order_streams_and_gaps() -> None:
    told = document(page_html(encoder_decoder()))
    assert [layer["stream"] for layer in told["layers"]] == ["encoder", "decoder", "cross"]
    assert [(layer["queries"], layer["keys"]) for layer in told["layers"]] == [(0, 0), (1, 1), (1, 0)]
    text = told["texts"][0]
    joined = "".join(gap + word for gap, word in zip(text["gaps"], text["tokens"], strict=True))
    assert joined.startswith("[CLS] He sat on the river bank, and the bank")
    assert [at for at, flag in enumerate(text["flags"]) if flag & 4] == [7]  # the line that ends with a comma
    assert [flag & 2 for flag in document(page_html(with_generated()))["texts"][0]["flags"]][-4:] == [0, 2, 2, 2]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_of_the_user_is_markup(name: str) -> None:
    text = HOSTILE[name] + " \ud800"
    tokens = tokens_of(text)
    page = page_html(recording_of(layer_of(0, tokens), text=text), screen=StaticScreen("<pre>screen</pre>", "pre {}"))
    page.decode("utf-8")
    assert page.count(b"<script") == page.count(b"</script") == 2
    assert page.count(b"<style") == 2
    title = re.search(rb"<title>(.*?)</title>", page, re.DOTALL)
    assert title and b"<" not in title[1]
    words = json.dumps(document(page), ensure_ascii=False)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", words)


def test_a_page_names_no_other_file() -> None:
    page = page_html(causal_model()).decode()
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|src=|href=|url\(|import\b", page.replace("http-equiv", ""))


def test_inspect_writes_a_page_with_its_screen_inside(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert attn("inspect", "river bank", "-o", file).code == 0
    told = document(file.read_bytes())
    assert told["title"] == "river bank"
    assert b"<noscript><pre>" in file.read_bytes()


def test_a_page_of_a_recordings_file_is_that_of_the_run(tmp_path: Path) -> None:
    run, page, again = (tmp_path / name for name in ("run.attn", "page.html", "again.html"))
    assert attn("inspect", "river bank", "-o", run).code == 0
    assert attn("inspect", "-m", run, "-o", page).code == 0
    assert attn("inspect", "river bank", "-o", again).code == 0
    assert page.read_bytes() == again.read_bytes()


def test_layers_without_queries_and_keys_are_pictures() -> None:
    recording = causal_model()
    hollow = dataclasses.replace(recording.layers[1], q=None, k=None)
    page = page_html(dataclasses.replace(recording, layers=(recording.layers[0], hollow, recording.layers[2])))
    assert document(page)["absent"] == hollow.h
    assert [bool(head) for head in lines_of(page)[1:]] == [True] * 4 + [False] * 4 + [True] * 4


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
