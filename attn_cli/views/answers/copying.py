"""Whether heads that find content copy: words for a kind of them, a line a head, and what the numbers are."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

from rich.text import Text

from attn_cli.summaries.told.copying import LEAST_LOGIT, MOST_P, SHUFFLES, Copying, CopyingHead
from attn_cli.text import counted
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import DIM

_MOST_LINES = 8  # heads of a kind that are told one by one
_INDENT = 6


def in_words(heads: Sequence[CopyingHead]) -> str:
    """`5 of them copy: what they write raises the token that they read, 18.6 by 0.63 logits`; "" without heads."""
    told = (
        _of_some("copies", "raises", [x for x in heads if x.copies], heads),
        _of_some("suppresses", "lowers", [x for x in heads if x.suppresses], heads),
    )
    none = "it doesn't copy" if len(heads) == 1 else "none of them copies"
    return "; ".join(filter(None, told)) or (none if heads else "")


def _of_some(does: str, changes: str, some: Sequence[CopyingHead], heads: Sequence[CopyingHead]) -> str:
    """What some of the heads do, with the number of the one that does it most; "" of none."""
    if not some:
        return ""
    most = max(some, key=lambda head: abs(head.logit))
    by = f"{most.name} by {abs(most.logit):.2f} logits"
    if len(heads) == 1:
        return f"it {does}: what it writes {changes} the token that it reads, by {abs(most.logit):.2f} logits"
    several = {"copies": "copy", "suppresses": "suppress"}[does] if len(some) > 1 else does
    who = f"all {len(heads)} {several}" if len(some) == len(heads) else f"{len(some)} of them {several}"
    return f"{who}: what they write {changes} the token that they read, {by}"


def lines(heads: Sequence[CopyingHead], numbers: Mapping[str, str], rest: int, screen: Screen) -> Iterator[Text]:
    """` 18.6 0.89/0.97 copies: +0.63, shuffled +0.34, p 0.002, rank 1 in 0 of 14`: a line a head, of 8 at most."""
    for head in heads[:_MOST_LINES]:
        does = "copies" if head.copies else "suppresses" if head.suppresses else "no copy"
        p = head.lowered_p if head.logit < 0 else head.raised_p
        said = f"{head.name:<4} {numbers[head.name]}  {does}: {head.logit:+.2f}, shuffled {head.shuffled:+.2f}, "
        said += f"p {p:.3f}, rank 1 in {head.most} of {head.rows}"
        indent = " " * min(_INDENT, screen.width // 10)
        yield Text("\n".join(wrap(said, screen.width, initial_indent=indent, subsequent_indent=indent + "  ")), DIM)
    more = heads[_MOST_LINES:]
    if more or rest:
        copying = f", {sum(head.copies for head in more)} of which copy" if more else ""
        yield Text(f"      and {len(more) + rest} more{copying}", DIM)


def captions(copying: Copying | None, *, of_text: bool) -> list[str]:
    """Captions on which heads copy: what "copies" means and how sure it is, or why it isn't known."""
    if not of_text:
        return ["which of them copy is told of a text: attn heads --kinds TEXT"]
    if copying is None:
        return ["kinds tell where heads look, attn heads --sort logit what they write"]
    if copying.obstacle:
        return [f"whether they copy isn't known: {copying.obstacle}"]
    chance = MOST_P * len(copying.heads)
    return [
        f"copies: what it writes (W_O, final norm as it was, unembedding; not through later layers) raises the token "
        f"that it reads by {LEAST_LOGIT:g} logits or more over the mean of {copying.vocabulary:,} tokens (mean of the "
        "rows in which such a token is its strongest key past sinks), and more than if the text's tokens were "
        f"shuffled (p: the share of {SHUFFLES:,} shuffles that give as much; {MOST_P:g} or less, by chance "
        f"{chance:.1f} of these {counted(len(copying.heads), 'head')}); rank 1 in: rows in which no other token "
        "is raised as much"
    ]
