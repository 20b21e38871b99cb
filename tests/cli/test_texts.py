"""Where texts come from, and that they arrive as they are."""

import csv
import os
from pathlib import Path

import pytest

from attn_cli.cli.kit.run.texts import LineStream
from tests.program import attn, refused, strict_json


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


def test_lines_come_from_files_and_arguments_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"river\nbank\n")
    for run in (
        attn("top", "--lines", "--file", tmp_path / "a.txt", "--json"),
        attn("top", "--lines", "river\nbank\n", "--json"),
    ):
        assert run.code == 0
        assert [strict_json(line)["input"]["text"] for line in run.bytes.splitlines()] == ["river", "bank"]


def test_a_token_that_one_line_lacks_stops_only_that_line() -> None:
    run = attn("top", "--lines", "--token", "bank", "--json", stdin=b"river bank\nhe sat\nbank loan\n")
    assert run.code == 2
    assert run.errors == "attn: line 2: no token 'bank' in the text\n"
    rows = [strict_json(line)["tables"]["top"] for line in run.bytes.splitlines()]
    assert [{row["query"] for row in answer} for answer in rows] == [{1}, {0}]


def test_a_head_that_is_not_there_stops_all_lines() -> None:
    refused(attn("top", "--lines", "-H", "9", stdin=b"river bank\nhe sat\n"), 2, "there is no head 9")


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
    run = attn("top", "--lines", "-t", "zebra", "-q", stdin=b"river bank\n" * 1000)
    lines = run.errors.splitlines()
    assert (run.code, run.bytes) == (2, b"")
    assert lines[:2] == [f"attn: line {number}: no token 'zebra' in the text" for number in (1, 2)]
    assert lines[20:] == ["attn: 1,000 of 1,000 lines have no answer; the first 20 are named"]
    few = attn("top", "--lines", "-t", "bank", stdin=b"river bank\n" * 1000 + b"he sat\n" * 20)
    assert few.errors.splitlines()[19:] == ["attn: line 1020: no token 'bank' in the text"]


@pytest.mark.parametrize(
    ("pick", "rows"),
    [
        ("bank", [0, 4]), ("BANK", [0, 4]), ("bank#1", [0]), ("bank#2", [4]), ("4", [4]), ("-1", [4]), ("0", [0]),
        ("River", [2]), ("the", [3]), ("THE", [1, 3]),
    ],
)  # fmt: skip
def test_token_picks_rows_by_word_place_or_number(pick: str, rows: list[int]) -> None:
    run = attn("matrix", "bank The river the bank", "--token", pick, "--json")
    assert run.json["tables"]["matrices"][0]["queries"] == rows


def test_lines_of_a_pipe_are_there_when_they_end() -> None:
    reading, writing = os.pipe()
    stream = LineStream(reading)
    os.write(writing, b"one\ntw")
    assert stream.has_line()
    assert stream.readline(100) == b"one\n"
    assert not stream.has_line()
    os.write(writing, b"o\n\nlast" + b"a" * 5000)
    assert [stream.readline(100), stream.readline(100)] == [b"two\n", b"\n"]
    assert len(stream.readline(1000)) >= 1000  # a line without an end is cut
    os.close(writing)
    assert stream.has_line()
    assert stream.readline(10_000)[-1:] in (b"a", b"") and stream.readline(100) == b""
    os.close(reading)
