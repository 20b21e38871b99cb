"""The texts of a command, each read and checked before the model runs."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.plan import CommandPlan, PickedRows
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.status_line import StatusLine
from attn_cli.errors import AttnError
from attn_cli.model.source import Source
from attn_cli.prompt import Prompt
from attn_cli.sources import Generating
from attn_cli.summaries.calls.in_words import has_words, prompt_in_words
from attn_cli.text import counted
from attn_cli.token_syntax import picked_rows

_SMALL_WINDOW = 8  # texts that are read before they are answered, whatever their length
_WINDOW, _WINDOW_CELLS = 64, 2**16  # and of short ones: texts, and tokens squared of all of them


@contextmanager
def counted_tokens(source: Source, most: int | None, *, quiet: bool) -> Iterator[None]:
    """Context manager: says on stderr how many tokens, of `most` at most, a model has generated so far."""
    if most is None or not isinstance(source, Generating):
        yield
        return
    with StatusLine(f"writing up to {most} tokens", quiet=quiet) as line:
        source.on_token(lambda count: line.say(f"writing token {count} of up to {most}"))
        yield


@dataclass(frozen=True)
class ReadText:
    """One text to be answered.

    display  the text as reports show it: with words in place of tokens where they are merged, else `prompt` itself
    rows     the picked rows among the tokens of `display`
    """

    number: int
    prompt: Prompt
    display: Prompt
    rows: PickedRows
    notes: tuple[str, ...]

    @property
    def merged_from(self) -> int | None:
        """The number of tokens that the text had before they were merged into words; None where none were."""
        return None if self.display is self.prompt else len(self.prompt.tokens)


@dataclass(frozen=True)
class TextReader:
    """Reads the texts of a command with the model's tokenizer, as many at a time as are run together."""

    options: TextCommandOptions
    source: Source
    plan: CommandPlan

    def has_room(self, window: Sequence[ReadText | AttnError]) -> bool:
        """True if one more line is to be read before those in `window` are run and answered together."""
        if self.source.batch_size == 1:
            return False
        cells = sum(len(text.prompt.tokens) ** 2 for text in window if isinstance(text, ReadText))
        return len(window) < _SMALL_WINDOW or (
            self.options.generate is None and len(window) < _WINDOW and cells < _WINDOW_CELLS
        )

    def read(self, number: int, text: str) -> ReadText:
        """The text as tokens, with the picked rows; raises all errors that show before the model runs."""
        read = self._tokens(number, text) if self.options.generate is None else self._generated(number, text)
        self.plan.hiding.check(read.display, read.rows)
        memory = self.plan.memory(read.display, read.rows) if self.plan.memory else ""
        length = f"{len(read.prompt.tokens):,} tokens"
        self._say_if_verbose(f"{length} · {memory}" if memory else length)
        return read

    def _generated(self, number: int, text: str) -> ReadText:
        """As `_tokens`, while the tokens that the model generates are counted; with --verbose the time they took."""
        start = time.monotonic()
        with counted_tokens(self.source, self.options.generate, quiet=self.options.quiet):
            read = self._tokens(number, text)
        generated = read.prompt.generated
        if generated is not None:
            self._say_if_verbose(f"generated {counted(generated.tokens, 'token')} in {time.monotonic() - start:.2f} s")
        return read

    def _tokens(self, number: int, text: str) -> ReadText:
        prompt = self.source.read([text], self.options.pair)[0]
        if (messages := self.options.messages_with(text)) is not None:
            from attn_cli.summaries.parts.text_parts import template_tokens  # here: few texts are chats

            prompt = replace(prompt, template=template_tokens(prompt, messages))
        streams = (prompt.tokens, *prompt.others.values())
        words = self.plan.words
        display = prompt_in_words(prompt) if words and any(map(has_words, streams)) else prompt
        notes = _no_words_note(prompt) if words and display is prompt else ()
        rows, more = picked_rows(self.plan.token, display)
        _, of_keys = picked_rows(self.plan.key, display)
        return ReadText(number, prompt, display, rows, tuple(dict.fromkeys(notes + more + of_keys)))

    def _say_if_verbose(self, words: str) -> None:
        print_notes([words], quiet=self.options.quiet or not self.options.verbose)


def _no_words_note(prompt: Prompt) -> tuple[str, ...]:
    if any(token.start is not None and not token.special for token in prompt.tokens):  # white space alone
        return ()
    return ("--words has no effect: these tokens have no character offsets",)
