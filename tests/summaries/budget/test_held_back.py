"""What is held back of a text: its last tokens, of texts that are long enough, where a plan is made."""

from dataclasses import replace

import pytest

from attn_cli.prompt import Generated, Prompt
from attn_cli.summaries.budget.asked import Asked
from attn_cli.summaries.budget.held_back import split_text
from tests.summaries.budget.planted import prompt_of_ids


def written(tokens: int, new: int) -> Prompt:
    """A prompt of which a model wrote the last `new` tokens."""
    prompt = prompt_of_ids([0] * tokens)
    flagged = tuple(replace(token, generated=token.index >= tokens - new) for token in prompt.tokens)
    return replace(prompt, tokens=flagged, generated=Generated("", new, False))


@pytest.mark.parametrize(
    ("tokens", "asked", "count"),
    [
        (813, Asked(), 101),
        (64, Asked(), 16),
        (63, Asked(), 0),  # 47 would be left: too few to price anything on
        (813, Asked(scored=200), 200),
        (813, Asked(scored=300), 0),
        (121, Asked(window=90), 16),
        (121, Asked(window=101), 0),  # it would hide no key of the 105 that are left
        (813, Asked(target=None), 0),
        (813, Asked(windows=False, top=8), 0),
        (813, Asked(windows=False, keys="q8_0"), 101),
    ],
)
def test_as_many_tokens_are_held_back_as_are_scored(tokens: int, asked: Asked, count: int) -> None:
    prompt = prompt_of_ids([0] * tokens)
    split = split_text(prompt, asked)
    assert split.count == count and split.whole is prompt
    assert split.sample.tokens == prompt.tokens[: tokens - count]


def test_of_what_a_model_wrote_the_last_half_is_held_back() -> None:
    split = split_text(written(100, 41), Asked())
    assert split.count == 20
    assert [token.index for token in split.sample.tokens if token.generated] == list(range(59, 80))
    assert [token.index for token in split.whole.tokens if token.generated] == list(range(80, 100))
    assert split.sample.generated is not None and split.sample.generated.tokens == 21
    short = written(100, 31)
    assert split_text(short, Asked()).sample is short
