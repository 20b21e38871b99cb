"""Compare one word in several contexts."""

from dataclasses import replace
from itertools import combinations

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import ModelCommandOptions
from attn_cli.cli.kit.run.texts import whole_texts
from attn_cli.cli.kit.shell.signature import argument, option, takes_options
from attn_cli.cli.kit.stderr import StatusLine, print_notes
from attn_cli.errors import ExitCode, InputError
from attn_cli.summaries.answers.compare import common_word, comparison_of, journeys_of
from attn_cli.summaries.report import Report


@takes_options
def compare(
    options: ModelCommandOptions,
    texts: list[str] = argument("TEXT TEXT", "Read two texts or more. One may be - (standard input).", ...),
    word: list[str] | None = option(
        "--word --token -w -t WORD|INDEX",
        "Compare this word: a word, word#2 (second occurrence) or an index. Several: one for each text.",
    ),
    width: str | None = o.WIDTH,
) -> ExitCode:
    """Compare one word in several contexts.

    Texts are compared two by two. The cosine tells how similar the word's two vectors are. The pull of a token is its
    share of the attention output for the word: weight times value, measured along that output. Shares add to 1.
    Prompts that differ in one word before it also show the heads whose row of the word differs most.

    \b
    Examples:
      attn compare "river bank" "bank loan" --word bank
      attn compare "a river bank" "the bank gave me a loan" -w bank -m ./my-model
    """
    if len(texts) < 2:
        raise InputError("one text, to compare with which?", 'attn compare "river bank" "bank loan"')
    contents = whole_texts(texts)
    word = word or [common_word(contents)]  # before the model is loaded
    source = options.source()
    prompts = [source.read([text])[0] for text in contents]
    with StatusLine("running the model", quiet=options.quiet):
        journeys, warnings = journeys_of(source, prompts, word, options.selection)
    with options.view() as view:
        for number, (first, second) in enumerate(combinations(journeys, 2)):
            notes, both = () if number else warnings, (first.prompt, second.prompt)
            report = Report("compare", source.about, both, warnings=notes, answer=comparison_of(first, second))
            print_notes(notes, quiet=options.quiet)
            view.show(report if len(texts) == 2 else replace(report, index=number))
    return ExitCode.DONE
