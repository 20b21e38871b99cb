"""Texts that run together are of about one length, and none is left out."""

from hypothesis import given
from hypothesis import strategies as st

from attn_cli.sources.batches import batches_by_length


@given(st.lists(st.integers(1, 3000)), st.integers(1, 40))
def test_every_text_once_and_no_batch_too_large(lengths: list[int], most: int) -> None:
    batches = batches_by_length(lengths, most)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[place] for place in batch)
        assert len(batch) <= most and (len(batch) <= 8 or len(batch) * longest <= 2048)
    flat = [lengths[place] for batch in batches for place in batch]
    assert flat == sorted(flat)


@given(st.lists(st.integers(1, 3000)))
def test_texts_that_are_alike_share_a_batch_within_its_tokens(lengths: list[int]) -> None:
    batches = batches_by_length(lengths, 2000, tokens=4096, together=1, alike=1.25)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        of_batch = [lengths[place] for place in batch]
        assert len(batch) == 1 or len(batch) * max(of_batch) <= 4096
        assert max(of_batch) <= 1.25 * min(of_batch) + 4
