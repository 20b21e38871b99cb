"""Of an answer's tokens those that lose most with a part hidden."""

from attn_cli.model.intervention import Outcome
from attn_cli.summaries.parts.citations import tokens_needing


def test_the_tokens_that_lose_most_are_from_the_first_to_the_last() -> None:
    assert tokens_needing(Outcome(token_bits=(-0.5, -9.0, 1.0, -8.0, -0.2)), 5) == slice(1, 4)
    assert tokens_needing(Outcome(token_bits=(-4.0, -4.0)), 2) == slice(0, 2)
    assert tokens_needing(Outcome(token_bits=(0.5, 0.2)), 2) == slice(0, 2), "none loses"
    assert tokens_needing(Outcome(bits=-3.0), 3) == tokens_needing(None, 3) == slice(0, 3), "nothing is known of each"
