"""The layers of a pass over texts, each reduced for every text as it is seen."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from attn_cli.call import Call
from attn_cli.cli.kit.options.hiding import HiddenNotes
from attn_cli.cli.kit.run.kept_run import MOST_BYTES
from attn_cli.cli.kit.run.plan import CommandPlan, PickedRows
from attn_cli.cli.kit.run.read_text import ReadText
from attn_cli.cli.kit.stderr.progress import Progress
from attn_cli.packed_call import PackedCall, PackedVisit
from attn_cli.prompt import Token
from attn_cli.recording import RecordedLayer
from attn_cli.summaries.calls.hidden_keys import HiddenKeys
from attn_cli.summaries.calls.in_words import InWords, has_words
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.reduce import Reducer, Summary, reduce, reduce_texts
from attn_cli.summaries.reducers.record import MemoryBudget, Record, Recorded, operand_bytes
from attn_cli.summaries.told.told_run import deciding_reducers
from attn_cli.token_syntax import rows_of_stream

if TYPE_CHECKING:
    from attn_cli.summaries.told.story import Story


@dataclass(eq=False)
class TextResult:
    """The result for one text: what was computed of each layer, the hidden keys, and what else is asked for."""

    text: ReadText
    hidden: HiddenNotes = field(default_factory=HiddenNotes)
    summaries: list[Summary] = field(default_factory=list)
    recorded: list[RecordedLayer] = field(default_factory=list)
    story: "Story | None" = None

    @cached_property
    def deciding(self) -> tuple[int, ...]:
        """The query rows that are picked with --token, else those from which the answer is predicted."""
        from attn_cli.summaries.told.story import deciding_rows  # here: few commands tell of them

        return tuple(self.text.rows) if self.text.rows else deciding_rows(self.text.prompt)

    def forget(self) -> None:
        """Drop what was collected, for a pass that begins anew."""
        self.hidden = HiddenNotes()
        self.summaries.clear()
        self.recorded.clear()


class TextsVisit(PackedVisit):
    """Collects what is computed of several texts that go through the model together, layer by layer."""

    def __init__(
        self, plan: CommandPlan, results: Sequence[TextResult], progress: Progress, *, records: bool, keeps: bool
    ) -> None:
        self.plan, self.results, self.progress = plan, results, progress
        self.records, self.keeps = records, keeps and not records
        self.budget = MemoryBudget(2 * MOST_BYTES)
        self._rows_of = [memoised(partial(self._rows, result.text)) for result in results]
        self._keys_of = [memoised(partial(self._keys, result.text)) for result in results]

    def __call__(self, call: Call) -> None:
        """Take in one text."""
        self._take(call, self._seen(call))

    def of_texts(self, packed: PackedCall) -> None:
        """Take in one layer's attention of all texts: reduce it, and record it where that is asked for."""
        seen = [self._seen(call) for call in packed.calls]
        summaries: Sequence[Summary | None] = [None] * len(seen)
        if all(each.reducers and each.call is call for each, call in zip(seen, packed.calls, strict=True)):
            summaries = reduce_texts(packed, [each.reducers for each in seen])
        for call, each, summary in zip(packed.calls, seen, summaries, strict=True):
            self._take(call, each, summary)

    def _rows(self, text: ReadText, queries: Sequence[Token]) -> PickedRows:
        return self.plan.hiding.rows(rows_of_stream(self.plan.token, queries, text.display.text), queries)

    def _keys(self, text: ReadText, keys: Sequence[Token]) -> PickedRows:
        return rows_of_stream(self.plan.key, keys, text.display.text)

    def _seen(self, call: Call) -> "_Seen":
        """The call, or the part of it that is shown, and its reducers."""
        plan, text, own = self.plan, call.place.text, call
        result = self.results[text]
        display = result.text.display
        if display is not result.text.prompt and (has_words(call.queries) or has_words(call.keys)):
            call = InWords(call)
        rows = self._rows_of[text](call.queries)
        keys = plan.hiding.keys(call, display.text)
        shown = HiddenKeys(call, keys) if keys else call
        picked = self._keys_of[text](call.keys)
        reducers: tuple[Reducer, ...] = ()
        if rows != [] and picked != []:
            reducers = tuple(plan.reducers(rows, shown, *([] if picked is None else [picked])))
            if plan.tells:
                reducers += deciding_reducers(shown, result.text.prompt, result.deciding)
        reducers += (plan.record(),) if self.records else ()
        is_kept = self.keeps and self._fits(call)
        record: tuple[Reducer, ...] = (Record(self.budget),) if is_kept else ()
        if not reducers:
            return _Seen(call, (), record)
        result.hidden.add(call, keys)
        measured = plan.measure.of(call)
        measured = HiddenKeys(measured, keys, result.hidden.weight) if keys else measured
        if measured is own:  # one walk for both
            reducers, record = reducers + record, ()
        return _Seen(measured, reducers, record)

    def _fits(self, call: Call) -> bool:
        return isinstance(call, RecordedLayer) or operand_bytes(call) * self.progress.layers <= MOST_BYTES

    def _take(self, call: Call, seen: "_Seen", summary: Summary | None = None) -> None:
        result, settle = self.results[call.place.text], self.plan.settle
        if seen.reducers:
            summary = reduce(seen.call, *seen.reducers) if summary is None else summary
            summary = _without_record(summary, result.recorded)
            result.summaries.append(summary if settle is None else settle(summary))
        if seen.record:
            _without_record(reduce(call, *seen.record), result.recorded)
        self.progress.step()


class _Seen(NamedTuple):
    """A call as it is measured, without hidden keys and in words if so asked, and its reducers."""

    call: Call
    reducers: tuple[Reducer, ...]
    record: tuple[Reducer, ...]


def _without_record(summary: Summary, recorded: list[RecordedLayer]) -> Summary:
    part = summary.part(Recorded)
    if part is None:
        return summary
    recorded.append(part.layer)
    return replace(summary, parts=summary.parts[:-1])
