"""What cells are measured by: weights, or shares of what is read."""

from attn_cli.errors import InputError
from attn_cli.summaries.calls.read_shares import By, Measure


def measure_of(by: By, *, mean: bool = False, words: bool = False) -> Measure:
    """What --by and --mean ask of calls; InputError for a measure that merged words don't have."""
    if words and by != "weight":
        raise InputError(f"--by {by} and --words at once", "norms of subwords can't be summed; weights can")
    return Measure(by, each=not mean, together=mean)
