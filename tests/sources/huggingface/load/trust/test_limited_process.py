"""Other people's code takes its share of time and memory, and no more."""

import os
import signal
import sys

import pytest

from attn_cli.sources.huggingface.load.trust import limited_process
from attn_cli.sources.huggingface.load.trust.limited_process import LimitExceededError, WorkFailedError, run_limited


def test_what_is_returned_comes_back_exactly() -> None:
    for text in ("", "a\x00\n\x1b[31m", "中\ud800" * 100_000):
        assert run_limited(lambda text=text: text) == text


def test_an_error_comes_back_as_its_first_line() -> None:
    with pytest.raises(WorkFailedError, match=r"^division by zero$"):
        run_limited(lambda: str(1 / 0))
    with pytest.raises(WorkFailedError, match="recursion"):
        run_limited(_deep)
    with pytest.raises(WorkFailedError, match="3"):
        run_limited(lambda: sys.exit(3))


def _deep() -> str:
    return _deep()


def test_limits_of_length_memory_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LimitExceededError, match="more than 10 letters"):
        run_limited(lambda: "a" * 11, 10)
    with pytest.raises(LimitExceededError, match="MB of memory"):
        run_limited(lambda: "a" * 10**10)
    with pytest.raises(LimitExceededError, match="MB of memory"):
        run_limited(os.abort)  # as a library in Rust or C++ ends that gets no memory
    monkeypatch.setattr(limited_process, "MOST_SECONDS", 1)
    with pytest.raises(LimitExceededError, match="more than 1 s"):
        run_limited(lambda: str(sum(iter(int, 1))))


def test_what_works_slowly_is_not_run_without_limits_and_what_only_waits_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_process, "_MOST_WAIT", 1.0)
    own = os.getpid()

    def endless() -> str:
        assert os.getpid() != own, "without limits"
        while True:
            pass

    monkeypatch.setattr(limited_process, "_IDLE", 0.0)
    with pytest.raises(LimitExceededError, match="busy machine"):
        run_limited(endless)
    monkeypatch.setattr(limited_process, "_IDLE", 4.0)

    def locked() -> str:
        while os.getpid() != own:
            signal.pause()
        return "done"

    assert run_limited(locked) == "done"
