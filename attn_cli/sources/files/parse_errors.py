"""Whatever a parser raises over the bytes of a file, as one line with the right exit code."""

from collections.abc import Iterator
from contextlib import contextmanager

from attn_cli.errors import AttnError, InputError, LimitError, reason
from attn_cli.text import excerpt

SAVE_AGAIN = "it may be damaged, truncated or still being written: save it again"


@contextmanager
def parse_errors(label: str, hint: str = SAVE_AGAIN, kind: type[AttnError] = InputError) -> Iterator[None]:
    """Context manager: an exception of any type that a parser of the file `label` raises becomes one of `kind`."""
    try:
        yield
    except AttnError:
        raise
    except MemoryError as error:
        raise LimitError(f"{label} doesn't fit into memory", "a smaller file, or fewer rows of it") from error
    except RecursionError as error:
        raise kind(f"{label} is nested too deeply", hint) from error
    except Exception as error:
        if "pickle" in str(error).lower():
            raise pickle_error(label) from None
        raise kind(f"{label} can't be read: {excerpt(reason(error), 160)}", hint) from error


def pickle_error(label: str) -> InputError:
    """The InputError for pickles, which can run code; its hint names safe formats, no way to load the pickle."""
    return InputError(
        f"{label} contains Python objects (pickle): save it with a numeric dtype",
        'for example np.save("q.npy", q.astype(np.float32)), of a tensor q.float().cpu().numpy()',
    )


def refuse_pickle(start: bytes, label: str) -> None:
    """Raise InputError if a file, called `label` in the error, begins as a pickle does."""
    if start[:1] == b"\x80" and start[1:2] in (b"\2", b"\3", b"\4", b"\5"):
        raise pickle_error(label)
