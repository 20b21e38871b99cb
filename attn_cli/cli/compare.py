"""Compare one word in two contexts."""

from attn_cli.cli.kit.options.command import ModelCommandOptions, shows_report
from attn_cli.cli.kit.run.texts import whole_texts
from attn_cli.cli.kit.shell.signature import argument, option, takes_options
from attn_cli.cli.kit.stderr import StatusLine
from attn_cli.errors import InputError
from attn_cli.prompt import Prompt
from attn_cli.summaries.answers.compare import Journey, comparison_of
from attn_cli.summaries.report import Report
from attn_cli.token_syntax import first_place


@takes_options
@shows_report
def compare(
    options: ModelCommandOptions,
    first: str = argument("TEXT", "Read one text; - reads standard input.", ...),
    second: str = argument("TEXT", "Read another text.", ...),
    word: list[str] | None = option(
        "--word -w WORD|INDEX",
        "Compare this word: a word, word#2 (second occurrence) or an index. Twice: one for each text.",
    ),
) -> Report:
    """Compare one word in two contexts.

    The cosine tells how similar the word's two vectors are. The pull of a token is its share of the attention output
    for the word: weight times value, measured along that output; shares add to 1. In a model, block by block.
    Prompts that differ in one word before it also show the heads whose row of the word differs most.

    \b
    Examples:
      attn compare "river bank" "bank loan" --word bank
      attn compare "a river bank" "the bank gave me a loan" -w bank -m ./my-model
      attn compare "bank of the river" "a bank holiday" -w bank -w holiday --json
    """
    words = list(word or [])
    if len(words) > 2:
        raise InputError(f"--word {len(words)} times, for two texts", "give it once, or once for each text")
    contents = whole_texts((first, second))
    source = options.source()
    prompts = [source.read([text])[0] for text in contents]
    picks = words if len(words) == 2 else [words[0] if words else _common_word(*prompts)] * 2
    journeys, warnings = list[Journey](), list[str]()
    with StatusLine("running the model", quiet=options.quiet):
        for prompt, pick in zip(prompts, picks, strict=True):
            rows, notes = first_place(pick, prompt)
            journeys.append(Journey(prompt, tuple(rows)))
            source.follow(prompt, rows, options.selection, journeys[-1].add, journeys[-1].steps.append)
            warnings += notes
    comparison = comparison_of(*journeys)
    return Report("compare", source.about, tuple(prompts), warnings=tuple(warnings), answer=comparison)


def _common_word(first: Prompt, second: Prompt) -> str:
    words = [dict.fromkeys(t.text.lower() for t in prompt.tokens if not t.special) for prompt in (first, second)]
    both = [word for word in words[0] if word in words[1]]
    if len(both) != 1:
        hint = f"both have {', '.join(both)}" if both else "they share no word; give --word twice, once for each"
        raise InputError("which word? give --word WORD", hint)
    return both[0]
