"""Show the heads of a scan: all, one with examples, or two scans."""

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import OutputOptions, ranking_of, shows_report
from attn_cli.cli.kit.shell.signature import argument, option, takes_options
from attn_cli.errors import InputError
from attn_cli.scans.show import differences_of, open_scan
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.summaries.report import Report
from attn_cli.text import excerpt


@takes_options
@shows_report
def scan_show(
    folder: str = argument("DIR", "Read the folder of a scan.", ...),
    sort: str | None = o.SORT,
    kind: str | None = option("--kind KIND", "Show heads of one kind."),
    top: int | None = option("--top -k N", "Show the first N.", min=1),
    head: str | None = option("--head -H LAYER.HEAD", "Show all of one head: 18.6, cross:3.0."),
    against: str | None = option("--against DIR", "Compare with another scan: significant differences."),
    *,
    output: OutputOptions,
) -> Report:
    """Show the heads of a scan: all, one with examples, or two scans.

    Means are over documents, with 95 % confidence intervals. --head shows a head's strongest examples and ordinary
    ones, and the line that opens the first. --against tests every number of every head, corrected for their count
    (Holm). A file called show is scanned as ./show.

    \b
    Examples:
      attn scan show reviews
      attn scan show reviews --sort induction -k 10
      attn scan show reviews --head 18.6
      attn scan show before --against after -f csv
    """
    chosen = [name for name, value in (("--sort", sort), ("--kind", kind), ("--head", head)) if value is not None]
    if len(chosen) > 1 or (head is not None and (against, top) != (None, None)) or (kind and against):
        both = [*chosen, *(["--against"] if against is not None else []), *(["--top"] if top is not None else [])]
        raise InputError(f"{' and '.join(both[:2])} at once", "leave out one of them")
    ranking = None if sort is None else ranking_of(sort, top)
    results = open_scan(folder)
    with parse_errors(f"the tables in {excerpt(folder)}", "scan again: they don't belong together"):
        if against is not None:
            answer = differences_of(results, open_scan(against), None if ranking is None else ranking.column, top)
        elif head is not None:
            answer = results.head(head)
        else:
            answer = results.show(ranking, kind, top)
    return Report(answer.name, results.about, answer=answer)
