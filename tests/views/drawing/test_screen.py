"""The depth of colour that a terminal's name stands for."""

import pytest

from attn_cli.views.drawing.screen import screen_of


@pytest.mark.parametrize(
    ("term", "depth"),
    [("vt100", "none"), ("vt220", "none"), ("dumb", "none"), ("xterm", "16"), ("xterm-256color", "256"),
     ("xterm-direct", "truecolor")],
)  # fmt: skip
def test_a_terminal_without_colours_gets_none(term: str, depth: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("COLORTERM", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert screen_of(None).depth == depth
