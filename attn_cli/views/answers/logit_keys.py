"""Keys, or heads, by what heads write from keys to the logit of the answer, with bars."""

from collections.abc import Iterator

import numpy as np
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from attn_cli.kernel.bands.blocks import farthest, folded
from attn_cli.model.intervention import HeadPlace
from attn_cli.prompt import Token
from attn_cli.selection import ranges
from attn_cli.summaries.answers.logit_keys import LogitKeys
from attn_cli.summaries.report import Report
from attn_cli.text import excerpt, visible
from attn_cli.views.drawing.bars import signed_bar
from attn_cli.views.drawing.cells import fit, packed, packed_text
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.labels import text_with_mark, token_label
from attn_cli.views.drawing.screen import Screen, largest_map
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_LABEL = 20  # columns of a key at most
_BAR = 12
_LONGEST = 40  # characters of a generated answer
_MANY_ROWS = 24  # heads of a map
_MANY = 12  # heads that a screen lists where no number was asked for


def draw(answer: LogitKeys, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The answer's logit less the mean over the vocabulary, as what all heads write to it and the embedding, MLPs and
    biases; then what single heads write, by key, by head, or as a map of both.
    """
    word = visible(excerpt(answer.answer.strip(), _LONGEST)) or "␣"
    rest = f"rest {answer.parts.rest:+.2f}"
    yield ""
    yield packed_text(
        [f"logit of {word}, minus the mean logit: {answer.parts.logit:+.2f}",
         f"all heads {answer.of_all_heads:+.2f}", rest], screen, BOLD,
    )  # fmt: skip
    if answer.of == "matrix":
        yield from _map(answer, screen)
    else:
        yield from _list(answer, screen)
    rows = sorted(set(answer.target.rows))
    where = f"row {rows[0]}" if len(rows) == 1 else f"rows {ranges(rows)}"
    what = "by itself" if answer.of == "heads" else "from a key"
    captions = [
        f"what {len(answer.heads)} heads write {what} in {where}, the final norm held",
        "later layers can undo it",
    ]
    yield Text("\n".join(packed(captions, screen.width)), DIM)


def _map(answer: LogitKeys, screen: Screen) -> Iterator[HeatMap]:
    """The heads that write most from any key, in the order of the model, by all keys; many keys pooled."""
    most = min(largest_map(screen)[0], _MANY_ROWS)
    chosen = np.sort(np.argsort(-np.abs(answer.values).max(axis=1), kind="stable")[:most])
    values, step = answer.values[chosen], -(-answer.values.shape[1] // largest_map(screen)[1])
    if step > 1:
        values = farthest(folded(values, -1, 0, step), -folded(-values, -1, 0, step))
    names = [f"{answer.heads[at].layer}.{answer.heads[at].head}" for at in chosen.tolist()]
    of = f"{len(names)} of {len(answer.heads)} heads" if len(names) < len(answer.heads) else "heads"
    columns = [visible(text_with_mark(token)) for token in answer.tokens]
    yield HeatMap(
        values, "change", f"logit · {of} by keys", names, columns, screen, block=(1, step), pooling="farthest from 0",
        row_numbers=names, row_word="heads",
    )  # fmt: skip


def _list(answer: LogitKeys, screen: Screen) -> Iterator[Text]:
    """A line for each key or head."""
    listed = answer.listed if answer.count is not None else answer.listed[:_MANY]
    labels = [_label(row.source) for row in listed]
    width = min(_LABEL, max(map(cell_len, labels), default=0))
    longest = max((abs(row.logit) for row in listed), default=0.0)
    bar = _BAR if screen.width >= 60 else 4
    for label, row in zip(labels, listed, strict=True):
        line = f"  {fit(label, width)} {row.logit:>+8.3f}  {signed_bar(row.logit, bar, longest):<{bar}}"
        for source, logit in row.largest:
            name = _label(source)
            piece = f"{fit(name, 14).rstrip() if isinstance(source, Token) else name} {logit:+.2f}"
            if cell_len(line) + cell_len(piece) + 2 > screen.width:
                break
            line += f"  {piece}"
        yield Text(line.rstrip())


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: `attn knock` on the head that adds most to the logit of the answer; None for piped input."""
    assert isinstance(report.answer, LogitKeys)
    place = report.answer.by_head[0].source
    assert isinstance(place, HeadPlace)
    return on_same_input("knock", report, invocation, "-H", f"{place.layer}.{place.head}")


def _label(source: Token | HeadPlace) -> str:
    return token_label(source) if isinstance(source, Token) else f"{source.layer}.{source.head}"
