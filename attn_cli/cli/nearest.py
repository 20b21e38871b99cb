"""attn nearest: the nearest words of a table, and analogies."""

from typing import Annotated

import typer

from attn_cli.cli.shared import OutputOptions, takes_output
from attn_cli.cli.talk import tell
from attn_cli.cli.texts import texts_of
from attn_cli.errors import ExitCode, InputError
from attn_cli.sources import DEFAULT_MODEL, open_table_source
from attn_cli.summaries.report import Report


@takes_output
def nearest(
    shown: OutputOptions,
    text: Annotated[
        str | None,
        typer.Argument(metavar="WORDS", help="A word, or words with + and - between them.", show_default=False),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", "-m", help="toy, toy:NAME, or a table file.", metavar="TABLE")
    ] = DEFAULT_MODEL,
    k: Annotated[int, typer.Option("--top", "-k", help="How many words.", min=1, metavar="K")] = 10,
) -> ExitCode:
    """The nearest words of a table of word vectors, and analogies.

    Nearest by cosine: by the angle between vectors, whatever their lengths. The words asked about are left out.

    \\b
    Examples:
      attn nearest bank
      attn nearest "king - man + woman"
      attn nearest "paris - france + italy" -m glove.6B.50d.txt -k 3
      attn nearest bank --json | jq -r '.result.nearest[].word'
    """
    from attn_cli.summaries.neighbours import nearest as nearest_words  # here: no other command needs it

    with shown.view() as view:
        asked = next(iter(texts_of(text, None, lines=False)))
        if isinstance(asked, InputError):
            raise asked
        source = open_table_source(model)
        prompt, signs = source.read_terms(asked)
        for warning in prompt.warnings:
            tell(warning, quiet=shown.quiet)
        rows = [token.id for token in prompt.tokens if token.id is not None]
        found = nearest_words(signs, source.table.rows(rows), rows, source.table.blocks(), k)
        view.show(Report("nearest", source.about, prompt, (), prompt.warnings, finding=found))
    return ExitCode.DONE
