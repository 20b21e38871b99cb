"""Where texts come from, and that they arrive as they are."""

import csv
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.architectures.tiny import tiny_model
from tests.media import tokenizer
from tests.program import Run, attn, refused, strict_json
from tests.real_models import MINILM
from tests.views.test_schemas import hold


def words(run) -> list[str]:
    assert run.code == 0, run.errors
    return [token["text"] for token in run.json["input"]["tokens"]]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"river bank", "river bank"),
        (b"river bank\n", "river bank"),
        (b"river bank\r\n", "river bank"),
        (b"\xef\xbb\xbfriver bank\n", "river bank"),
        (b"river\n\nbank\n\n", "river\n\nbank\n"),
        (b"river\r\nbank\r\n", "river\r\nbank"),
        ("río 中 bank".encode(), "río 中 bank"),
    ],
)
def test_a_whole_stream_or_file_is_one_text(content: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    for run in (
        attn("top", "-", "--json", stdin=content),
        attn("top", "--json", stdin=content),
        attn("top", "--file", "-", "--json", stdin=content),
        attn("top", "--file", tmp_path / "a.txt", "--json"),
    ):
        assert run.json["input"]["text"] == text
        assert "index" not in run.json


def test_a_text_that_starts_with_a_dash_goes_after_two() -> None:
    assert words(attn("top", "--json", "--", "-1 river")) == ["-", "1", "river"]
    assert words(attn("top", "--json", "--", "--debug river"))[-1] == "river"


def test_the_lone_dash_of_a_text_is_standard_input_even_after_two() -> None:
    assert words(attn("top", "--json", "--", "-", stdin=b"river")) == ["river"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["compare", "bank loan"], ["--word", "bank"]),
        (["plane", "bank loan"], []),
        (["learn", "bank loan"], ["--word", "bank", "--to", "river", "--to", "loan", "--steps", "1"]),
        (["layers"], []),
    ],
    ids=lambda words: " ".join(words),
)
def test_a_dash_is_standard_input_in_every_command(before: list[str], after: list[str]) -> None:
    piped = attn(*before, "-", *after, "--json", stdin=b"river bank\n")
    assert piped.code == 0, piped.errors
    assert piped.bytes == attn(*before, "river bank", *after, "--json").bytes
    refused(attn(*before, "river \udcff bank", *after), 2, "the text is not UTF-8 at character 6")
    if len(before) > 1:
        refused(attn(*(word if word != "bank loan" else "-" for word in before), "-", *after), 2, "more than once")


@pytest.mark.parametrize("content", [b"", b"\n", b" \n\n"])
def test_nothing_on_standard_input_is_an_empty_text(content: bytes) -> None:
    refused(attn("top", "-", stdin=content), 2, "the text is empty")


def test_bytes_that_are_not_utf8_are_refused_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"river \xff bank")
    refused(attn("top", stdin=b"river \xff bank"), 2, "standard input is not UTF-8 at byte 6", "iconv")
    refused(attn("top", "--file", tmp_path / "a.txt"), 2, "a.txt is not UTF-8 at byte 6")
    refused(attn("top", "river \udcff bank"), 2, "the text is not UTF-8 at character 6")  # as sys.argv holds \xff


def test_a_word_that_the_table_lacks_is_named_and_not_dropped_in_silence() -> None:
    run = attn("top", "river zzqqy bank", "--json")
    assert words(run) == ["river", "bank"]
    assert run.errors == "attn: not in the table minilm, left out: zzqqy\n"
    assert run.json["warnings"] == ["not in the table minilm, left out: zzqqy"]
    assert attn("top", "river zzqqy bank", "--quiet").errors == ""


LINES = b"\xef\xbb\xbfriver bank\r\n\nhe sat\n\xff\nzzqqy\nbank loan"


def test_every_line_is_a_text_in_order_and_a_bad_one_stops_nothing() -> None:
    run = attn("top", "--lines", "--json", stdin=LINES)
    answers = [strict_json(line) for line in run.bytes.splitlines()]
    assert [(answer["index"], answer["input"]["text"]) for answer in answers] == [
        (0, "river bank"),
        (2, "he sat"),
        (5, "bank loan"),
    ]
    assert run.code == 2
    assert run.errors.splitlines() == [
        "attn: line 4: the line is not UTF-8 at byte 0",
        "attn: line 5: no word of the text is in the table minilm: zzqqy",
        "attn: 1 blank line left out",
    ]


@pytest.mark.parametrize(
    "command", [("top",), ("heads",), ("heads", "--kinds"), ("nearest",), ("matrix",), ("inspect",)]
)
def test_rows_of_lines_as_jsonl_are_those_of_csv(command: tuple[str, ...]) -> None:
    texts = b"river\nzzqqy\nbank\n" if command == ("nearest",) else b"river bank\nzzqqy\nhe sat\n"
    rows = [strict_json(line) for line in attn(*command, "--lines", "-f", "jsonl", stdin=texts).lines]
    table = [*csv.DictReader(attn(*command, "--lines", "-f", "csv", stdin=texts).lines)]
    assert {row["text"] for row in rows} == {0, 2}
    assert not any(isinstance(value, dict | list) for row in rows for value in row.values())
    assert [[*row] for row in rows] == [[*row] for row in table]
    assert [str(row["text"]) for row in rows] == [row["text"] for row in table]


def test_errors_of_lines_are_named_until_they_would_flood() -> None:
    run = attn("top", "--lines", "-t", "zebra", "-q", stdin=b"river bank\n" * 300)
    lines = run.errors.splitlines()
    assert (run.code, run.bytes) == (2, b"")
    assert lines[:2] == [f"attn: line {number}: no token 'zebra' in the text" for number in (1, 2)]
    assert lines[20:] == ["attn: 300 of 300 lines have no answer, the first 20 are named"]
    few = attn("top", "--lines", "-t", "bank", stdin=b"river bank\n" * 300 + b"he sat\n" * 20)
    assert few.errors.splitlines()[19:] == ["attn: line 320: no token 'bank' in the text"]


MODEL = MINILM
SENTENCE = "he sat on the river bank"


def minilm(command: str, *options: object) -> Run:
    return attn(command, SENTENCE, "-m", MODEL, *options)


def rows_of_csv(run: Run) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(run.text)))


@pytest.mark.parametrize("command", ["matrix", "top"])
def test_special_tokens_are_gone_and_their_weight_is_said(command: str) -> None:
    options = ("-H", "3.5")
    run = minilm(command, *options, "--hide", "special")
    assert "[CLS]" in minilm(command, *options).text
    assert "[CLS]" not in run.text and "[SEP]" not in run.text
    assert "5 river" in run.text and "6 bank" in run.text  # the numbers that they have among all tokens
    said = re.search(r"2 special tokens left out here, not in the model: (\d+)% of the weight$", run.errors.strip())
    assert said and int(said[1]) > 50


def test_data_keeps_the_weights() -> None:
    every = {
        (row["query"], row["key"]): row["weight"]
        for row in rows_of_csv(minilm("top", "-H", "4.5", "-k", 9, "-f", "csv"))
    }
    rows = rows_of_csv(minilm("top", "-H", "4.5", "-k", 9, "-f", "csv", "--hide", "sink"))
    assert {row["key_token"] for row in rows} == set(SENTENCE.split())
    for query in {row["query"] for row in rows}:
        mine = [row for row in rows if row["query"] == query]
        assert all(float(row["weight"]) == pytest.approx(float(every[query, row["key"]]), abs=1e-6) for row in mine)


def test_arrays_and_tables_of_a_matrix(tmp_path: Path) -> None:
    file = tmp_path / "w.npz"
    assert minilm("matrix", "-H", "4.5", "--hide", "bank", "--hide", "0", "-o", file).code == 0
    arrays = np.load(file)
    assert arrays["hidden_keys"].tolist() == [0, 6]
    assert not arrays["weights"][..., [0, 6]].any() and np.isneginf(arrays["scores"][..., [0, 6]]).all()
    run = minilm("matrix", "-H", "4.5", "--hide", "special", "-f", "csv")
    assert {(row["query_token"], row["key_token"]) for row in rows_of_csv(run)} == {
        (query, key) for query in SENTENCE.split() for key in SENTENCE.split()
    }
    markdown = minilm("matrix", "-H", "4.5", "--hide", "special", "-f", "md").text
    assert "CLS" not in markdown and "| 6 | bank |" in markdown


def test_a_table_has_no_sink() -> None:
    none = attn("top", SENTENCE, "--hide", "sink")
    assert none.errors.startswith("attn: --hide sink hides nothing: no causal mask or special token")
    assert len(none.errors) <= 81
    assert none.text == attn("top", SENTENCE).text


@pytest.mark.parametrize("command", ["matrix", "top", "heads", "inspect"])
def test_nothing_is_said_and_nothing_changes_where_nothing_is_hidden(command: str) -> None:
    for options in (["--hide", "special"], ["--hide", "special", "-f", "csv"]):
        run = attn(command, "river bank", *options)
        assert run.errors == ""
        assert run.text == attn(command, "river bank", *options[2:]).text


def test_what_is_wrong() -> None:
    refused(minilm("top", "--hide", "special", "--token", "0"), 2, "--token picks special tokens")
    refused(minilm("top", "--hide", "loan"), 2, "no token 'loan' in the text")
    refused(attn("inspect", "the cat", "--steps", "--hide", "cat"), 2, "--steps shows every key: nothing can be hidden")


TEXT = "the cat sat on a photo"


def saved(kind: str, folder: Path) -> Path:
    tiny_model(kind, "tiny").save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("by")
    return {kind: saved(kind, folder / kind) for kind in ("llama", "bert", "bloom", "qwen3_next")}


@pytest.mark.parametrize("by", ["value", "output"])
def test_top_has_shares_beside_weights(models: dict[str, Path], by: str, tmp_path: Path) -> None:
    run = attn("top", TEXT, "-m", models["llama"], "--by", by, "-k", "20", "--json")
    hold(run, "top")
    rows = [row for row in run.json["tables"]["top"] if (row["layer"], row["head"], row["query"]) == (1, 2, 5)]
    shares = [row[f"{by}_share"] for row in rows]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(1, abs=1e-5)
    assert sum(row["weight"] for row in rows) == pytest.approx(1, abs=1e-5)
    table = attn("top", TEXT, "-m", models["llama"], "--by", by, "-f", "csv").lines
    assert table[0].endswith(f"score,weight,{by}_share")
    assert attn("matrix", TEXT, "-m", models["llama"], "--by", by, "-o", tmp_path / "a.npz").code == 0
    with np.load(tmp_path / "a.npz") as arrays:
        np.testing.assert_allclose(arrays[f"{by}_share"].sum(axis=-1), 1, atol=1e-5)
        assert arrays[f"{by}_share"][1, 2, 5].max() == pytest.approx(shares[0], abs=1e-6)
    hold(attn("matrix", TEXT, "-m", models["llama"], "--by", by, "--json"), "matrix")
    hold(attn("top", TEXT, "-m", models["llama"], "--by", by, "--overall", "--mean", "--json"), "overall")


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        ("bert", ["--by", "length"], "'length' is not one of"),
        ("bert", ["--by", "value", "--words"], "of subwords"),
        ("bloom", ["--by", "value"], "shows its weights alone"),
        ("bloom", ["--by", "output"], "shows its weights alone"),
        ("qwen3_next", ["--by", "output"], "W_O was not found: no matrix is given what its heads give"),
    ],
)
def test_what_is_refused(models: dict[str, Path], kind: str, arguments: list[str], words: str) -> None:
    run = attn("top", TEXT, "-m", models[kind], *arguments)
    refused(run, 2 if kind == "bert" else 3, words)
