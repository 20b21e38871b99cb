"""Reading `--sort COLUMN` and `--top N` of a table of heads."""

from difflib import get_close_matches

from attn_cli.errors import InputError
from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.reducers.heads.statistics import STATISTICS, Statistic


def ranking_of(sort: str | None, top: int | None) -> Ranking | None:
    """The order of a table of heads; None without `sort`."""
    if sort is None:
        if top is not None:
            raise InputError("--top needs --sort", f"add --sort COLUMN: {_columns()}")
        return None
    turned, name = sort.startswith("-"), sort.removeprefix("-").strip().lower()
    statistic = _names().get(name)
    if statistic is None:
        near = get_close_matches(name, _names(), 1)
        raise InputError(f"--sort {sort!r} is not a column of this table" + (f": {near[0]}?" if near else ""),
                         f"columns: {_columns()}; - before one reverses the order")  # fmt: skip
    return Ranking(statistic.name, statistic.heading.partition(" (")[0], statistic.largest_first != turned, top)


def _short(statistic: Statistic) -> str:
    return statistic.heading.split()[0]


def _names() -> dict[str, Statistic]:
    return {
        name.lower(): each for each in STATISTICS for name in (each.name, each.heading, _short(each))
    }  # fmt: skip


def _columns() -> str:
    return ", ".join(map(_short, STATISTICS))
