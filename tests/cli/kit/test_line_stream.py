"""Lines of a pipe come as they are written: a batch never waits for more."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from attn_cli.cli.kit.line_stream import LineStream
from attn_cli.cli.kit.read_texts import Texts
from attn_cli.cli.kit.run import _batch


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):  # a test may have closed it
            os.close(end)


def test_lines_are_there_when_they_end(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    stream = LineStream(reading)
    os.write(writing, b"one\ntw")
    assert stream.has_line()
    assert stream.readline(100) == b"one\n"
    assert not stream.has_line()
    os.write(writing, b"o\n\nlast")
    assert [stream.readline(100), stream.readline(100)] == [b"two\n", b"\n"]
    os.close(writing)
    assert stream.has_line()
    assert [stream.readline(100), stream.readline(100)] == [b"last", b""]


def test_a_line_without_an_end_is_cut(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.write(writing, b"a" * 5000)
    assert len(LineStream(reading).readline(1000)) >= 1000


def test_a_batch_takes_what_is_there(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = pipe
    with os.fdopen(os.dup(reading)) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        texts = Texts("-", None, lines=True)
        os.write(writing, b"one\n")
        assert _batch(texts, 8) == ["one"]  # would wait for ever if it asked for more
        os.write(writing, b"two\nthree\n")
        assert _batch(texts, 8) == ["two", "three"]
        os.write(writing, b"four\nfive\n")
        os.close(writing)
        assert _batch(texts, 1) == ["four"]
        assert _batch(texts, 8) == ["five"]
        assert _batch(texts, 8) == []
