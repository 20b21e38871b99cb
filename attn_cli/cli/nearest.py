"""Find a word's nearest words in a table, and analogies."""

from typing import Annotated

import typer

from attn_cli.cli.kit.options.output import OutputOptions
from attn_cli.cli.kit.run.loop import answer_each
from attn_cli.cli.kit.run.texts import Texts
from attn_cli.cli.kit.shell import completion
from attn_cli.cli.kit.shell.signature import takes_options
from attn_cli.errors import ExitCode
from attn_cli.sources import DEFAULT_MODEL, open_table_source
from attn_cli.sources.tables.source import TableSource
from attn_cli.summaries.answers.nearest import nearest as nearest_words
from attn_cli.summaries.report import Report


@takes_options
def nearest(
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="WORDS",
            help="Look up a word, or words with + and - between them; - or nothing reads stdin.",
            show_default=False,
        ),
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Answer every line of the input by itself.")] = False,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="Open toy, toy:NAME or a table file.",
            metavar="TABLE",
            autocompletion=completion.tables,
        ),
    ] = DEFAULT_MODEL,
    k: Annotated[int, typer.Option("--top", "-k", help="Show K words.", min=1, metavar="K")] = 10,
    *,
    output: OutputOptions,
) -> ExitCode:
    """Find a word's nearest words in a table, and analogies.

    Words are ranked by cosine similarity; the words in the query are left out.

    \b
    Examples:
      attn nearest bank
      attn nearest "king - man + woman"
      attn nearest "paris - france + italy" -m glove.6B.50d.txt -k 3
      attn nearest bank --json | jq -r '.tables.nearest[].word'
      attn nearest --lines -k 1 -f csv < analogies.txt
    """
    with output.view() as view:
        source = open_table_source(model)
        return answer_each(
            Texts(text, None, lines=lines),
            view,
            lambda number, question: _answer(source, question, k, number if lines else None),
            lines=lines,
            quiet=output.quiet,
        )


def _answer(source: TableSource, question: str, k: int, index: int | None) -> Report:
    prompt, signs = source.read_terms(question)
    rows = [token.id for token in prompt.tokens if token.id is not None]
    neighbours = nearest_words(signs, source.table.rows(rows), rows, source.table.blocks(), k)
    return Report("nearest", source.about, (prompt,), warnings=prompt.warnings, answer=neighbours, index=index)
