"""Reading `--sort COLUMN` and `--top N` of a table of heads."""

from difflib import get_close_matches

from attn_cli.errors import InputError
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.report import Ranking


def ranking_of(sort: str | None, top: int | None) -> Ranking | None:
    """The order of a table of heads; None without `sort`."""
    short = {each.name: each.heading.split()[0] for each in STATISTICS}
    columns = ", ".join(short.values())
    if sort is None:
        if top is not None:
            raise InputError("--top needs --sort", f"add --sort COLUMN: {columns}")
        return None
    turned, name = sort.startswith("-"), sort.removeprefix("-").strip().lower()
    known = {x.lower(): each for each in STATISTICS for x in (each.name, each.heading, short[each.name])}
    if name not in known:
        near = get_close_matches(name, known, 1)
        reason = f"--sort {sort!r} is not a column of this table" + (f": {near[0]}?" if near else "")
        raise InputError(reason, f"columns: {columns}; - before one reverses the order")
    found = known[name]
    return Ranking(found.name, found.heading.partition(" (")[0], found.largest_first != turned, top)
