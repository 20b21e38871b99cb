"""The layers of a pass over texts, each reduced for every text as it is seen."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from attn_cli.call import Call
from attn_cli.cli.kit.run.plan import CommandPlan, PickedRows
from attn_cli.cli.kit.run.read_text import ReadText
from attn_cli.cli.kit.stderr.progress import Progress
from attn_cli.packed_call import PackedCall, PackedVisit
from attn_cli.prompt import Token
from attn_cli.summaries.calls.hidden_keys import HiddenKeys
from attn_cli.summaries.calls.in_words import InWords, has_words
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.reduce import Reducer, Summary, reduce, reduce_texts
from attn_cli.summaries.reducers.record import Recorded
from attn_cli.summaries.told.told_run import deciding_reducers
from attn_cli.token_syntax import rows_of_stream


class TextsVisit(PackedVisit):
    """Collects what is computed of several texts that go through the model together, layer by layer."""

    def __init__(self, plan: CommandPlan, texts: Sequence[ReadText], progress: Progress, *, records: bool) -> None:
        self.plan, self.texts, self.progress, self.records = plan, texts, progress, records
        self._rows_of = [memoised(partial(self._rows, text)) for text in texts]
        self._keys_of = [memoised(partial(self._keys, text)) for text in texts]

    def __call__(self, call: Call) -> None:
        """Take in one attention call."""
        measured, reducers = self._seen(call)
        self._take(call, reduce(measured, *reducers) if reducers else None)

    def of_texts(self, packed: PackedCall) -> None:
        """Take in one layer's attention of all texts: reduce it, and record it where that is asked for."""
        seen = [self._seen(call) for call in packed.calls]
        if all(reducers and own is call for (own, reducers), call in zip(seen, packed.calls, strict=True)):
            summaries: Sequence[Summary | None] = reduce_texts(packed, [reducers for _, reducers in seen])
        else:
            summaries = [reduce(own, *reducers) if reducers else None for own, reducers in seen]
        for call, summary in zip(packed.calls, summaries, strict=True):
            self._take(call, summary)

    def _rows(self, text: ReadText, queries: Sequence[Token]) -> PickedRows:
        return self.plan.hiding.rows(rows_of_stream(self.plan.token, queries, text.display.text), queries)

    def _keys(self, text: ReadText, keys: Sequence[Token]) -> PickedRows:
        return rows_of_stream(self.plan.key, keys, text.display.text)

    def _seen(self, call: Call) -> tuple[Call, tuple[Reducer, ...]]:
        """The call as it is measured, without hidden keys and in words if so asked, and its reducers."""
        plan, at = self.plan, call.place.text
        text = self.texts[at]
        if text.display is not text.prompt and (has_words(call.queries) or has_words(call.keys)):
            call = InWords(call)
        rows, picked = self._rows_of[at](call.queries), self._keys_of[at](call.keys)
        hidden = plan.hiding.keys(call, text.display.text)
        shown = HiddenKeys(call, hidden) if hidden else call
        reducers: tuple[Reducer, ...] = ()
        if rows != [] and picked != []:
            reducers = tuple(plan.reducers(rows, shown, *([] if picked is None else [picked])))
            if plan.tells:
                reducers += deciding_reducers(shown, text.prompt, text.deciding)
        reducers += (plan.record(),) if self.records else ()
        if not reducers:
            return call, ()
        text.hidden.add(call, hidden)
        measured = plan.measure.of(call)
        return HiddenKeys(measured, hidden, text.hidden.weight) if hidden else measured, reducers

    def _take(self, call: Call, summary: Summary | None) -> None:
        text, settle = self.texts[call.place.text], self.plan.settle
        if summary is not None:
            recorded = summary.part(Recorded)
            if recorded is not None:
                text.recorded.append(recorded.layer)
                summary = replace(summary, parts=summary.parts[:-1])
            text.summaries.append(summary if settle is None else settle(summary))
        self.progress.step()
