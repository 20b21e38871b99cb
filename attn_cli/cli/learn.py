"""attn learn: projections found by gradient descent, so that a word attends to another."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.read_texts import whole_texts
from attn_cli.cli.kit.run import place, rows_of
from attn_cli.cli.kit.shared_options import OutputOptions, takes_output
from attn_cli.cli.kit.stderr import tell
from attn_cli.errors import ExitCode, InputError
from attn_cli.prompt import Prompt
from attn_cli.sources import DEFAULT_MODEL, open_table_source
from attn_cli.summaries.report import Report
from attn_cli.text import cut

if TYPE_CHECKING:
    from attn_cli.kernel.lessons.learn import Example
    from attn_cli.sources.toy import TableSource

STARTS = ("identity", "random")


@takes_output
def learn(
    shown: OutputOptions,
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...", help="Texts that hold the word and a target; one may be -.", show_default=False
        ),
    ],
    word: Annotated[
        str,
        typer.Option("--word", "-w", metavar="WORD|INDEX", help="The word that attends.", show_default=False),
    ],
    to: Annotated[
        list[str],
        typer.Option("--to", metavar="WORD", help="What it should attend to; may be repeated.", show_default=False),
    ],
    steps: Annotated[int, typer.Option("--steps", help="Steps of gradient descent.", min=1, metavar="N")] = 100,
    rate: Annotated[
        float | None,
        typer.Option("--rate", help="Step size; if missing, one that fits the first step.", metavar="NUMBER"),
    ] = None,
    start: Annotated[
        str, typer.Option("--start", help="W_Q and W_K at first: identity or random.", metavar="HOW")
    ] = "identity",
    seed: Annotated[int, typer.Option("--seed", help="What a random start is drawn from.", min=0, metavar="N")] = 0,
    model: Annotated[
        str, typer.Option("--model", "-m", help="toy, toy:NAME, or a table file.", metavar="TABLE")
    ] = DEFAULT_MODEL,
) -> ExitCode:
    """Learn W_Q and W_K, so that a word attends to another, by gradient descent on a table's fixed vectors.

    The loss is -log of the word's weight on the targets, the mean over heads and texts. -o learned.npz keeps the
    learned projections; attn inspect, top, heads and matrix use them with --projections learned.npz.

    \b
    Examples:
      attn learn "I love apple phone" --word apple --to phone
      attn learn "apple phone" "a phone by apple" --word apple --to phone -o l.npz
      attn top "her apple phone" --token apple --projections learned.npz
    """
    from attn_cli.kernel.lessons.learn import descend  # here: no other command needs these
    from attn_cli.summaries.answers.learn import Learning, rose

    o.one_of(start, STARTS, "--start")
    if rate is not None and not (np.isfinite(rate) and rate > 0):
        raise InputError(f"--rate {rate:g} is no step size", "give a number above 0")
    with shown.view() as view:
        source = open_table_source(model)
        prompts = [source.read([text])[0] for text in whole_texts(texts)]
        notes: list[str] = []
        examples = []
        for prompt in prompts:
            example, said = _example(source, prompt, word, to)
            examples.append(example)
            notes += [*prompt.warnings, *said]
        heads = source.table.heads
        wq, wk = source.first_projections(None if start == "identity" else seed)
        descent = descend(examples, wq, wk, heads, steps=steps, rate=rate)
        if not np.isfinite(descent.losses).all():
            at = int(np.flatnonzero(~np.isfinite(descent.losses))[0])
            raise InputError(f"at rate {descent.rate:g} the loss is no number after {at} steps", "a smaller --rate")
        if rose(descent.losses.tolist()):
            notes.append(f"the loss did not fall at rate {descent.rate:g}; try a smaller --rate")
        warnings = tuple(dict.fromkeys(notes))
        for warning in warnings:
            tell(warning, quiet=shown.quiet)
        found = Learning(word, tuple(to), tuple(prompts), tuple(examples), descent, heads, start, seed)
        view.show(Report("learn", source.about, prompts[0], (), warnings, finding=found, others=tuple(prompts[1:])))
    return ExitCode.DONE


def _example(
    source: "TableSource", prompt: Prompt, word: str, targets: Sequence[str]
) -> tuple["Example", tuple[str, ...]]:
    """The query's row and the targets' rows in one text, and what to note about them."""
    from attn_cli.kernel.lessons.learn import Example

    (query, *_), notes = place(prompt, word)
    rows = sorted({row for target in targets for row in rows_of(prompt, target)})
    if not rows:
        raise InputError(
            f"no {' or '.join(map(repr, targets))} in {cut(prompt.text, 60)!r}",
            "every text holds the word and a target",
        )
    return Example(source.vectors(prompt), query, tuple(rows)), notes
