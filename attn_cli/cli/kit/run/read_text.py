"""The texts of a command, each read and checked before the model runs."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from attn_cli.cli.kit.options.hiding import HiddenNotes
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.plan import CommandPlan, PickedRows
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.status_line import StatusLine
from attn_cli.errors import AttnError
from attn_cli.model.source import Source
from attn_cli.prompt import Prompt
from attn_cli.recording import RecordedLayer
from attn_cli.sources import Generating
from attn_cli.summaries.calls.in_words import has_words, prompt_in_words
from attn_cli.summaries.reduce import Summary
from attn_cli.text import counted
from attn_cli.token_syntax import picked_rows

if TYPE_CHECKING:
    from attn_cli.summaries.told.story import Story

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


@dataclass(eq=False)
class ReadText:
    """One text to be answered; `display` is it with words in place of merged tokens, `rows` are picked among those."""

    number: int
    prompt: Prompt
    display: Prompt
    rows: PickedRows
    notes: tuple[str, ...]
    hidden: HiddenNotes = field(default_factory=HiddenNotes)
    summaries: list[Summary] = field(default_factory=list)
    recorded: list[RecordedLayer] = field(default_factory=list)
    story: "Story | None" = None

    @property
    def merged_from(self) -> int | None:
        """The number of tokens that the text had before they were merged into words; None where none were."""
        return None if self.display is self.prompt else len(self.prompt.tokens)

    @cached_property
    def deciding(self) -> tuple[int, ...]:
        """The query rows that are picked with --token, else those from which the answer is predicted."""
        from attn_cli.summaries.told.story import deciding_rows  # here: few commands tell of them

        return tuple(self.rows) if self.rows else deciding_rows(self.prompt)

    def forget(self) -> None:
        """Drop what was collected, for a pass that begins anew."""
        self.hidden = HiddenNotes()
        self.summaries.clear()
        self.recorded.clear()


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
        start = time.monotonic()
        with counted_tokens(self.source, self.options.generate, quiet=self.options.quiet):
            read = self._tokens(number, text)
        self.plan.hiding.check(read.display, read.rows)
        memory = self.plan.memory(read.display, read.rows) if self.plan.memory else ""
        notes = [f"{len(read.prompt.tokens):,} tokens" + (f" · {memory}" if memory else "")]
        generated = read.prompt.generated
        if generated is not None:
            notes = [f"generated {counted(generated.tokens, 'token')} in {time.monotonic() - start:.2f} s", *notes]
        print_notes(notes, quiet=self.options.quiet or not self.options.verbose)
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


def _no_words_note(prompt: Prompt) -> tuple[str, ...]:
    if any(token.start is not None and not token.special for token in prompt.tokens):  # white space alone
        return ()
    return ("--words has no effect: these tokens have no character offsets",)
