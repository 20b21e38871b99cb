"""Learning as a falling loss with bars, and the weights of the query before, during and after it."""

from collections.abc import Iterator

import numpy as np
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from attn_cli.summaries.answers.learn import Learning
from attn_cli.summaries.report import Report
from attn_cli.text import visible
from attn_cli.views.drawing.bars import bar, bar_width
from attn_cli.views.drawing.cells import packed_text
from attn_cli.views.drawing.labels import token_label
from attn_cli.views.drawing.palette import Ramp, background
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_given_texts

_MOST = 24  # with more tokens than this, only the heaviest are shown


def draw(learning: Learning, report: Report, screen: Screen) -> Iterator[Text | Table | str]:
    """The loss at some steps of learning W_Q and W_K, then for each text the learned word's weights."""
    targets = " or ".join(map(visible, learning.targets))
    yield ""
    heading = ["loss", f"-log of the weight of {visible(learning.word)} on {targets}"]
    yield packed_text(heading, screen, BOLD)
    settings = [
        f"{learning.steps} steps",
        f"rate {learning.descent.rate:.4g}",
        f"from the {learning.start} W_Q and W_K",
    ]
    yield packed_text(settings, screen, DIM)
    losses = learning.descent.losses
    width = bar_width(screen, 20)
    for step in learning.milestones:
        loss = float(losses[step] / max(losses.max(), 1e-12))  # of the largest
        yield Text(f"  {step:>6} {losses[step]:7.3f}  {bar(loss, width)}".rstrip())
    for text in range(len(learning.prompts)):
        yield ""
        yield from _weights(learning, text, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the words of the texts it learned from, as points in the plane; None for piped input."""
    return on_given_texts("plane", list(invocation.words({"texts"})), invocation)


def _weights(learning: Learning, text: int, screen: Screen) -> Iterator[Text | Table]:
    """The query's weights on every token: a row per token, a column per moment."""
    prompt, example = learning.prompts[text], learning.examples[text]
    number = f"{text + 1} · " if len(learning.prompts) > 1 else ""
    heads = f"mean of {learning.heads} heads" if learning.heads > 1 else "weights"
    title = [f"{number}{token_label(prompt.tokens[example.query])} attends to", heads, "← target"]
    yield packed_text(title, screen, BOLD)
    moments = list(dict.fromkeys([0, learning.during, learning.steps]))
    names = {0: "before", learning.steps: "after"}
    weights = np.array([learning.weights(text, step) for step in moments])
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=DIM)
    longest = max(cell_len(token_label(token)) for token in prompt.tokens)
    table.add_column("  ", no_wrap=True, min_width=min(max(longest + 2, 10), screen.width // 3))
    for step in moments:
        table.add_column(names.get(step, f"step {step}"), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    heaviest = np.argsort(-weights.max(axis=0), kind="stable")[:_MOST]
    places = sorted({*heaviest.tolist(), *example.targets})
    for at in places:
        cells = [Text(f"{weight:.3f}", background(weight, Ramp(0.0, 1.0), screen.depth)) for weight in weights[:, at]]
        mark = Text("←" if at in example.targets else "", DIM)
        table.add_row(Text("  " + token_label(prompt.tokens[at]), overflow="ellipsis"), *cells, mark)
    yield table
    omitted = len(prompt.tokens) - len(places)
    if omitted:
        yield Text(f"  {omitted} tokens with less weight are left out", DIM)
