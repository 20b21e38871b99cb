"""Texts that a table reads, and texts that are too long for it."""

import pytest

from attn_cli import open_source
from attn_cli.errors import LimitError


@pytest.mark.parametrize(("text", "words"), [("a " * 200_001, "200,001 words"), ("a" * 4_000_001, "4,000,001 letters")])
def test_a_text_of_hours_is_refused_at_once(text: str, words: str) -> None:
    with pytest.raises(LimitError, match=f"has {words}, and a table reads 200,000") as caught:
        open_source("toy").read([text])
    assert "--lines" in caught.value.hint
