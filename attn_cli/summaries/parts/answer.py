"""attn parts: which part of a text some rows read, and which they needed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from attn_cli.call import Call, Look
from attn_cli.errors import LoadError
from attn_cli.fields import Field, made
from attn_cli.model.intervention import Experiment
from attn_cli.model.source import Predicting, Source
from attn_cli.prompt import Prompt
from attn_cli.selection import ALL, Selection
from attn_cli.summaries.calls.hidden_keys import HiddenKeys, HiddenWeight
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.parts.citations import Citation, citation_of
from attn_cli.summaries.parts.fields import COLUMNS, FIELDS
from attn_cli.summaries.parts.hidden import AnswerContext, HiddenParts, hide_parts, rows_after
from attn_cli.summaries.parts.reading import ReadPart, TextReading, shares_read
from attn_cli.summaries.parts.shares import SharesOfParts
from attn_cli.summaries.parts.text_parts import TextPart, question_of, rows_before_generated, rows_of_last
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.sinks import HeadSinksReducer
from attn_cli.summaries.report import Answer

Hides = Callable[[Call], Sequence[int]]
"""The hidden keys of a call, ascending."""


def _hides_nothing(_: Call) -> Sequence[int]:
    return ()


@dataclass(frozen=True, eq=False)
class PartsRead(Answer):
    """The parts of a text with what some rows attend to each, and what masking it changes of the answer.

    queries_from  which rows: "last part", "generated" for those that predict what was generated, "picked" for those
                  that the user named, "all"
    read       the share of these rows' weights that each part gets
    hidden     what masking each part changes; None where nothing can be masked, as in a table
    obstacle   why a model's parts can't be masked; "" where they can
    cut        how the text was divided: lines, paragraphs, sentences, words, roles, or the name of a file
    summaries  of the attention calls that read the text
    key_logits   what heads write from each key of the text to the logit of the answer `[m]`; None unless asked for
    """

    name: ClassVar[str] = "parts"
    fields: ClassVar[Sequence[Field]] = FIELDS

    queries_from: str
    prompt: Prompt
    read: TextReading
    hidden: HiddenParts | None = None
    obstacle: str = ""
    cut: str = "parts"
    summaries: tuple[Summary, ...] = ()
    key_logits: np.ndarray | None = None

    @property
    def effects(self) -> list[float]:
        """For each part of the text in its order the number it is sorted by, smallest first."""
        return [-read.non_sink_share for read in self.read.parts] if self.hidden is None else self.hidden.effects

    @property
    def order(self) -> list[ReadPart]:
        """The parts as they are shown: first the most needed of those given before the question, then all others."""
        effects = self.effects
        order = sorted(self.read.parts, key=lambda read: (effects[read.number], -read.non_sink_share))
        context = set(self.context) if self.hidden is not None and self.hidden.target is not None else set()
        leads = (lambda read: read.number in context) if context else self._can_lead
        first = next((at for at, read in enumerate(order) if leads(read)), 0)
        return [order[first], *order[:first], *order[first + 1 :]]

    @property
    def context(self) -> list[int]:
        """The numbers of the parts that an answer may come from: those given before the question."""
        return list(_context(self.prompt, [read.part for read in self.read.parts], self.read).parts)

    @property
    def citation(self) -> Citation | None:
        """The parts of the text that the whole answer needed: without which it is half as likely or less."""
        if self.hidden is None or self.hidden.target is None:
            return None
        text = "".join(token.text for token in self.hidden.target.tokens)
        generated = self.prompt.generated
        if generated is not None and self.hidden.target.generated:
            text = generated.text
        return citation_of(self.hidden, self.context, text)

    @property
    def cited(self) -> list[Citation]:
        """The parts that the answer needed; [] without an answer."""
        return [self.citation] if self.citation else []

    def _can_lead(self, read: ReadPart) -> bool:
        return read.part.kind != "other" and (self.queries_from == "all" or not self.has_queries(read))

    def has_queries(self, read: ReadPart) -> bool:
        """True if some of the rows whose attention is measured are tokens of this part."""
        return self.read.stream != "cross" and not set(read.part.tokens).isdisjoint(self.read.rows)

    @property
    def table_rows(self) -> list[dict[str, Any]]:
        """The parts of the text in the order in which they are shown, as rows of tables and JSON."""
        outcomes, context = None if self.hidden is None else self.hidden.outcomes, set(self.context)
        return [
            {
                "number": read.number,
                "read": read,
                "text": read.part.text(self.prompt.text),
                "outcome": None if outcomes is None else outcomes[read.number],
                "has_queries": self.has_queries(read),
                "is_context": read.number in context,
                "direct_logit": self.logit_of(read),
            }
            for read in self.order
        ]

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per part, as shown: its text, its shares of the measured rows' weights, and the effect of masking
        it.
        """
        return (made(COLUMNS, row) for row in self.table_rows)

    def logit_of(self, read: ReadPart) -> float | None:
        """What heads write from a part's tokens to the answer's logit, less the mean logit; None if not asked for."""
        return None if self.key_logits is None else float(self.key_logits[list(read.part.tokens)].sum())

    def arrays(self) -> dict[str, np.ndarray]:
        """Of the S parts, in text order, `[S]` each: `names`, `tokens` (how many), `share` of the measured `rows`'
        weight, `non_sink_share` of their weight off sinks, and `vs_uniform`, this over what uniform attention gives.
        """
        parts = self.read.parts
        arrays = {
            "names": np.array([read.part.name for read in parts]),
            "tokens": np.array([len(read.part.tokens) for read in parts]),
            "share": np.array([read.share for read in parts]),
            "non_sink_share": np.array([read.non_sink_share for read in parts]),
            "vs_uniform": np.array([np.nan if read.vs_uniform is None else read.vs_uniform for read in parts]),
            "rows": np.array(self.read.rows),
            "layers": np.array([layer for layer, _ in self.read.head_shares]),
        }
        if self.key_logits is not None:
            arrays["direct_logit"] = np.array([self.logit_of(read) for read in parts])
        if self.hidden is not None:
            name = "hidden_bits" if self.hidden.target else "hidden_cosine_distance"
            arrays[name] = np.abs(self.hidden.effects) if self.hidden.target is None else np.array(self.hidden.effects)
        shares = [shares for _, shares in self.read.head_shares]
        if len({x.shape for x in shares}) == 1:
            return arrays | {"head_share": np.stack(shares)}
        return arrays | {f"call{at}.head_share": x for at, x in enumerate(shares)}


def read_parts(
    source: Source,
    prompt: Prompt,
    parts: Sequence[TextPart],
    *,
    rows: Sequence[int] | None = None,
    everywhere: bool = False,
    selection: Selection = ALL,
    hides: Hides = _hides_nothing,
    step: Callable[[], None] = lambda: None,
) -> PartsRead:
    """The attention of some rows to the parts of a prompt, and the effect of masking each part.

    parts       what the text is divided into: lines, sentences, messages ...
    rows        the rows whose attention is measured; None for those that predict what was generated, else of the
                last part; in an encoder all
    everywhere  mask a part for all rows after it, and not for these rows alone
    selection   the layers and heads whose shares are told, and that a part is masked from
    hides       a function from a call to the keys that are left out of all parts, such as a sink: their weight counts
                for none, and they stay in sight when a part is masked
    step        called after every layer and every part

    A model that predicts must be opened with `predicts=True`; of a table, and where a model's attention can't be
    changed, `hidden` is None.
    """
    asked, reading = ("picked", tuple(rows)) if rows is not None else _rows(source, prompt, parts)
    watcher = _Watcher(prompt, parts, reading, hides, step)
    earliest = min((rows[0] for part in parts if (rows := rows_after(part, len(prompt.tokens)))), default=None)
    look = Look(selection, watcher.visit)
    experiment, obstacle = _experiment(source, prompt, reading, look, earliest=earliest if everywhere else None)
    if experiment is None or not experiment.visited:
        watcher.forget()
        source.each([prompt], selection, watcher.visit)
    read = shares_read(prompt, watcher.summaries, watcher.hidden)
    hidden = None
    if experiment is not None:
        decodes = experiment.target is not None and read.stream == "self"
        context = _context(prompt, watcher.parts, read, keeps_sinks=decodes)
        try:
            hidden = hide_parts(
                experiment, prompt, watcher.parts, selection, everywhere=everywhere, step=step, context=context
            )
        except LoadError as error:
            obstacle = error.message
    return PartsRead(asked, prompt, read, hidden, obstacle, summaries=tuple(watcher.summaries))


def _context(
    prompt: Prompt, parts: Sequence[TextPart], read: TextReading, *, keeps_sinks: bool = False
) -> AnswerContext:
    """The parts that an answer may come from: given before the question, not the reading rows' own, no sinks."""
    asks, own, sinks = question_of(prompt, parts), set(read.rows), {sink.token.index for sink in read.sinks}
    numbers = (number for number, part in enumerate(parts) if part.kind == "given" and set(part.tokens) - sinks)
    return AnswerContext(
        tuple(number for number in numbers if number not in asks and own.isdisjoint(parts[number].tokens)),
        frozenset(sinks if keeps_sinks else ()),
    )


def _rows(source: Source, prompt: Prompt, parts: Sequence[TextPart]) -> tuple[str, tuple[int, ...]]:
    """The source of the reading rows, as `PartsRead.queries_from` names it, and their numbers."""
    if chosen := rows_before_generated(prompt):
        return "generated", chosen
    makes_vector = isinstance(source, Predicting) and not source.has_lm_head  # of all rows of an encoder
    if "decoder" in prompt.others or makes_vector:
        return "all", tuple(token.index for token in prompt.others.get("decoder", prompt.tokens))
    return "last part", rows_of_last(prompt, parts)


def _experiment(
    source: Source, prompt: Prompt, rows: tuple[int, ...], look: Look, *, earliest: int | None
) -> tuple[Experiment | None, str]:
    """The model's baseline, visited; None, with the reason, where no part can be hidden afterwards."""
    if not isinstance(source, Predicting):
        return None, ""
    try:
        if "decoder" in prompt.others:  # its encoder attends from all rows
            return source.experiment(prompt, rows, everywhere=earliest is not None, look=look), ""
        return source.experiment(prompt, rows, earliest=earliest, look=look), ""
    except LoadError as error:
        return None, error.message


class _Watcher:
    """Keeps what the rows give to the parts, in every call that reads the text, and what are its sinks.

    parts   those that were asked about; after the first call without the tokens that are hidden there
    hidden  the weight on these
    """

    def __init__(
        self,
        prompt: Prompt,
        parts: Sequence[TextPart],
        rows: tuple[int, ...],
        hides: Hides,
        step: Callable[[], None],
    ) -> None:
        self.parts, self.rows, self.hides, self.step = parts, rows, hides, step
        self.sinks = HeadSinksReducer()
        self.crosses = "decoder" in prompt.others
        self.is_text = memoised(lambda tokens: tuple(tokens) == prompt.tokens)
        self.forget()

    def forget(self) -> None:
        self.summaries: list[Summary] = []
        self.hidden = HiddenWeight()
        self._shares: SharesOfParts | None = None

    def visit(self, call: Call) -> None:
        """Take in one attention call while the model runs."""
        reads = call.place.stream == "cross" if self.crosses else self.is_text(call.queries)
        if reads and self.is_text(call.keys):
            hidden = self.hides(call)
            if self._shares is None:
                self.parts = _without(self.parts, hidden)
                self._shares = SharesOfParts(self.parts, self.rows)
            of_all = reduce(call, self.sinks)
            shown = HiddenKeys(call, hidden, self.hidden) if hidden else call
            of_rows = reduce(shown, self._shares)
            self.summaries.append(replace(of_rows, parts=(*of_rows.parts, *of_all.parts)))
        self.step()


def _without(parts: Sequence[TextPart], hidden: Sequence[int]) -> list[TextPart]:
    left = [(part, tuple(token for token in part.tokens if token not in set(hidden))) for part in parts]
    return [replace(part, tokens=tokens) for part, tokens in left if tokens or not part.tokens]
