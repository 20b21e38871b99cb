"""The answer that `attn parts` traces: a given one, the last message of a chat, or what the model writes."""

from dataclasses import dataclass

from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.generated_tokens import counted_tokens
from attn_cli.errors import InputError, LoadError
from attn_cli.model.source import Predicting, Source
from attn_cli.prompt import Prompt
from attn_cli.sources import is_model

_ANSWER_TOKENS = 32  # that a model writes to the end of a sentence or line
_CITED_TOKENS = 128  # and in sentences that are traced one by one


@dataclass(frozen=True)
class AskedAnswer:
    """The answer whose needed parts of the text are sought: with one masked, it loses log2 p.

    given  the text of --answer; None for what the model writes after the text
    cite   whether needed parts are sought for each sentence of the answer by itself
    """

    given: str | None
    cite: bool = False

    def check(self, options: TextCommandOptions, *, picks_rows: bool) -> None:
        """InputError for options that contradict each other, or that a table or recording can't answer."""
        asked = "--answer" if self.given is not None else "--cite" if self.cite else ""
        if asked and not is_model(options.model):
            raise InputError(f"{asked} needs a model that writes text", "choose one with --model")
        if asked and picks_rows:
            raise InputError(f"{asked} and --token at once", "the rows of an answer are those that chose it")
        if self.given is not None and options.generate is not None:
            raise InputError("--answer and --generate at once", "an answer is given or generated")

    def before(self, messages: list[tuple[str, str]] | None) -> list[tuple[str, str]] | None:
        """A chat's messages without the last one if that is an assistant's, which is then the answer; else all of
        them.
        """
        return messages[:-1] if messages and messages[-1][0] == "assistant" else messages

    def continued(
        self, source: Source, prompt: Prompt, messages: list[tuple[str, str]] | None, *, quiet: bool
    ) -> tuple[Prompt, tuple[str, ...]]:
        """The prompt with its answer after it, and notes to print; the prompt as it is where the model is an
        encoder.
        """
        if not isinstance(source, Predicting) or not source.has_lm_head:
            if self.given is None and not self.cite:
                return prompt, ()
            option = "--cite" if self.given is None else "--answer"
            raise InputError(f"{option} needs a model that writes text", "an encoder has no answer")
        if self.given is not None:
            end = len(prompt.text.rstrip())
            start = end - len(self.given.strip())
            if prompt.text[start:end] == self.given.strip() and start > 0:
                return prompt.ending_with_answer(start, end), ()
            return source.answered(prompt, self.given), ()
        if self.before(messages) != messages and messages:
            *_, (_, content) = messages
            start = prompt.text.rindex(content.strip())
            return prompt.ending_with_answer(start, start + len(content.strip())), ()
        most = _CITED_TOKENS if self.cite else _ANSWER_TOKENS
        with counted_tokens(source, most, quiet=quiet):
            try:
                return source.written(prompt, most, one_sentence=not self.cite), ()
            except LoadError as error:
                return prompt, (f"the answer is the likeliest next token: {error.message}",)
