"""From texts to shown reports: what all commands on a text have in common."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from attn_cli.call import Call, Prompt, Selection
from attn_cli.errors import AttnError, ExitCode, InputError
from attn_cli.sources import Source
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.report import Report
from attn_cli.views import View
from attn_cli.views.tokens import visible

# Which reducers look at a call of a prompt; none means that the call is not shown.
Choose = Callable[[Prompt, Call], Sequence[Reducer]]


def answer(
    command: str,
    source: Source,
    texts: Iterator[str],
    view: View,
    choose: Choose,
    *,
    selection: Selection,
    lines: bool = False,
    pair: str | None = None,
    options: dict[str, Any] | None = None,
    quiet: bool = False,
) -> ExitCode:
    """Run all texts through `source`, batch by batch, and show a report for each, in order.

    With `lines` a text that can't be used is told on stderr and the others go on; the worst exit code is returned.
    """
    worst = ExitCode.DONE
    number = 0
    while batch := list(islice(texts, source.batch_size if lines else 1)):
        prompts: list[tuple[int, Prompt]] = []
        for text in batch:
            try:
                prompts += [(number, prompt) for prompt in source.read([text], pair)]
            except AttnError as error:
                if not lines:
                    raise
                worst = max(worst, error.code)
                tell(f"line {number + 1}: {error.message}", quiet=False)
            number += 1
        if prompts:
            for report in _reports(command, source, prompts, choose, selection, lines, options or {}):
                for warning in report.warnings:
                    tell(warning, quiet=quiet)
                view.show(report)
    if number == 0:
        raise InputError("no text", "standard input was empty")
    return worst


def _reports(
    command: str,
    source: Source,
    prompts: Sequence[tuple[int, Prompt]],
    choose: Choose,
    selection: Selection,
    lines: bool,
    options: dict[str, Any],
) -> Iterator[Report]:
    found: list[list[Summary]] = [[] for _ in prompts]

    def visit(call: Call) -> None:
        reducers = choose(prompts[call.place.text][1], call)
        if reducers:
            found[call.place.text].append(reduce(call, *reducers))

    source.each([prompt for _, prompt in prompts], selection, visit)
    for (number, prompt), summaries in zip(prompts, found, strict=True):
        index = number if lines else None
        yield Report(command, source.about, prompt, tuple(summaries), prompt.warnings, options, index)


def rows_of(prompt: Prompt, pick: str | None) -> list[int] | None:
    """The query rows that `--token` picks: a number, a word (all its places), or word#2; None picks all."""
    if pick is None:
        return None
    tokens = prompt.tokens
    if re.fullmatch(r"-?\d+", pick):
        row = int(pick)
        if not -len(tokens) <= row < len(tokens):
            raise InputError(f"there is no token {row}", f"tokens: {_listed(prompt)}")
        return [row % len(tokens)]
    word, _, place = pick.rpartition("#") if re.fullmatch(r".+#\d+", pick) else (pick, "", "")
    places = _places(prompt, word)
    if not places:
        raise InputError(f"no token {word!r} in the text", f"tokens: {_listed(prompt)}")
    if place:
        if not 1 <= int(place) <= len(places):
            raise InputError(f"{word!r} occurs {len(places)} times", f"{word}#1 to {word}#{len(places)}")
        places = [places[int(place) - 1]]
    return sorted({row for rows in places for row in rows})


def _places(prompt: Prompt, word: str) -> list[list[int]]:
    """The token rows of every place where `word` stands: whole tokens first, else the pieces that make it up."""
    exact = [[token.index] for token in prompt.tokens if token.text == word]
    alike = exact or [[token.index] for token in prompt.tokens if token.text.lower() == word.lower()]
    if alike:
        return alike
    spans = [match.span() for match in re.finditer(re.escape(word), prompt.text, re.IGNORECASE)]
    pieces = [
        [t.index for t in prompt.tokens if t.start is not None and t.end is not None and t.start < b and t.end > a]
        for a, b in spans
    ]
    return [rows for rows in pieces if rows]


def _listed(prompt: Prompt) -> str:
    shown = " ".join(f"{token.index} {token.text}" for token in prompt.tokens[:40])
    return shown + (" ..." if len(prompt.tokens) > 40 else "")


def tell(message: str, *, quiet: bool) -> None:
    """One line of talk on stderr."""
    if not quiet:
        print(f"attn: {visible(message)}", file=sys.stderr)
