"""A tokenizer's first words, read where they can do no harm: its rules came with the model, and may never end."""

from transformers import PreTrainedTokenizerBase

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.load.trust.limited_process import LimitExceededError, WorkFailedError, run_limited

_LETTERS = 100_000


def try_tokenizer(tokenizer: PreTrainedTokenizerBase, text: str, name: str) -> None:
    """Tokenize the first 100,000 characters of a text in a process of its own; LoadError where that fails.

    It fails, too, where it takes more than 5 seconds or 400 MB.

    A normaliser may double a text thirty times, a pattern may search for years or panic in Rust, which prints a
    traceback that nobody can catch.

    name  the model's, for messages
    """
    start = text[:_LETTERS]
    hint = "are its tokenizer's files whole, and this model's?"
    try:
        run_limited(lambda: str(len(tokenizer(start)["input_ids"])))
    except LimitExceededError as error:
        raise LoadError(f"{name}: its tokenizer takes {error} for {len(start):,} letters", hint) from error
    except WorkFailedError as error:
        raise LoadError(f"{name}: its tokenizer can't read this text: {error}", hint) from error
