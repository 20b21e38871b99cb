"""Find a word's nearest words in a table, and analogies."""

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import OutputOptions
from attn_cli.cli.kit.run.loop import answer
from attn_cli.cli.kit.run.texts import Texts
from attn_cli.cli.kit.shell.signature import argument, option, takes_options
from attn_cli.errors import ExitCode
from attn_cli.sources import open_table_source
from attn_cli.summaries.answers.nearest import nearest as nearest_words
from attn_cli.summaries.report import Report


@takes_options
def nearest(
    text: str | None = argument(
        "WORDS", "Look up a word, two words to compare, or words with + and -. - or nothing reads stdin."
    ),
    lines: bool = option("--lines", "Answer every line of the input by itself."),
    model: str = o.TABLE,
    k: int = option("--top -k K", "Show K words.", 10, min=1),
    *,
    output: OutputOptions,
) -> ExitCode:
    """Find a word's nearest words in a table, and analogies.

    Ranks words by cosine similarity, and leaves out the words that you ask about.

    \b
    Examples:
      attn nearest bank
      attn nearest "apple phone"                   the cosine of both, too
      attn nearest "king - man + woman"
      attn nearest "paris - france + italy" -m glove.6B.50d.txt -k 3
      attn nearest --lines -k 1 -f csv < analogies.txt
    """
    with output.view() as view:
        source = open_table_source(model)

        def report(number: int, question: str) -> Report:
            prompt, signs = source.read_terms(question)
            rows = [token.id for token in prompt.tokens if token.id is not None]
            neighbours = nearest_words(prompt.tokens, signs, source.table.rows(rows), source.table.blocks(), k)
            return Report("nearest", source.about, (prompt,), answer=neighbours, index=number if lines else None)

        return answer(Texts(text, None, lines=lines), view, report, lines=lines, quiet=output.quiet)
