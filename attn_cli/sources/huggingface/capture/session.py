"""Capturing every attention layer of a model in its own forward pass.

transformers looks its attention code up in a registry at every call. While a capture is open, the entries "eager" of
attention and masks are attn's own and configurations say "eager". Attention shows the visitor an `AttentionCall` and
returns the output computed meanwhile. Everything is put back at the end.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from attn_cli.prompt import Token
from attn_cli.selection import ALL, Selection
from attn_cli.sources.huggingface.anatomy.configuration import is_pair
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.capture.batch_labels import BatchLabels
from attn_cli.sources.huggingface.capture.calls import ObservedAttention, Visit
from attn_cli.sources.huggingface.capture.ledger import Ledger, SelectionDone, nothing_seen
from attn_cli.sources.huggingface.capture.own_code.function_mode import watching
from attn_cli.sources.huggingface.capture.registry import compute, in_registry
from attn_cli.sources.huggingface.load.checks import check_layer_numbers


class Capture(AbstractContextManager[Ledger]):
    """Gives the attention of a torch module's passes to `attend` while it is open, and the ledger when entered.

    stack   the module in `model` that reads the texts, where that isn't `model` itself

    Outputs stay the same to within rounding, unless `attend` changes them. Compiled code runs uncompiled meanwhile.
    """

    def __init__(self, model: nn.Module, attend: ObservedAttention, *, stack: nn.Module | None = None) -> None:
        self.model, self.attend, self.stack = model, attend, model if stack is None else stack
        self._exits = ExitStack()
        self._ran: set[nn.Module] = set()

    def __enter__(self) -> Ledger:
        with ExitStack() as stack:
            for context in self._contexts():
                stack.enter_context(context)
            self._exits = stack.pop_all()
        return self.attend.ledger

    def _contexts(self) -> Iterator[AbstractContextManager[Any]]:
        ledger, visitor = self.attend.ledger, self.attend.visitor
        yield hooked(self.stack.register_forward_pre_hook(ledger.labels.read_arguments, with_kwargs=True))
        if visitor is not None:
            yield visitor.blocks.watching(ledger.places.attention_blocks)
            seen = ledger.places.in_registry
            yield hooked(*(module.register_forward_pre_hook(lambda x, _: self._ran.add(x)) for module in seen))
        yield torch.compiler.set_stance("force_eager")
        yield in_registry(self.model, partial(compute, self.attend))
        yield watching(self.attend)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        """Put everything back; the end of a pass after its selection is no error."""
        is_over = error is None or isinstance(error, SelectionDone)
        self._exits.__exit__(None, None, None)
        if is_over:
            self.attend.ledger.record_silent(self._ran)
        return is_over and error is not None


@contextmanager
def capture(
    model: nn.Module,
    visit: Visit,
    *,
    selection: Selection = ALL,
    texts: Sequence[Sequence[Token]] | None = None,
    others: Sequence[Mapping[str, Sequence[Token]]] | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> Iterator[Ledger]:
    """Context manager: calls `visit` once per selected layer and text of every forward pass of `model`.

        with capture(model, lambda call: summaries.append(reduce(call, TopKeys(5)))):
            model(**inputs)

    model      any torch module; its outputs stay the same to within rounding
    visit      gets each `AttentionCall`: queries `[h, n, d]`, keys `[g, m, d]`, values `[g, m, e]` (h query heads,
               g key/value heads) and the rule for scores. The arrays are the model's own: don't change or keep them.
    texts      the tokens of each text of the batch, to label rows and columns; without them they are numbered. A padded
               text gives the same calls as if it ran alone.
    tokenizer  of the model, in place of texts: labels the tokens of every pass by their ids
    others     for each text the tokens of the stacks that read something else, by stack: decoder, vision, audio

    Entered, it gives the ledger: which layers attended, how often, and which could not be captured. Raises InputError
    for a layer that the model lacks, LoadError after passes without attention. Run no other models in other threads.
    """
    labels = BatchLabels(texts, others, encoder_decoder=is_pair(model), tokenizer=tokenizer)
    ledger, passes = Ledger(model, selection, labels), []
    blocks = max((place.blocks for module in ledger.places.attention for place in ledger.places.of(module)), default=0)
    check_layer_numbers(selection.layers or (), blocks, type(model).__name__)
    with (
        hooked(model.register_forward_hook(lambda *_: passes.append(True))),
        Capture(model, ObservedAttention(ledger, visit)),
    ):
        yield ledger
    if passes and not ledger.calls:
        raise nothing_seen(model, ledger)


def unlabelled(model: nn.Module) -> BatchLabels:
    """Labels of a pass of unknown texts: each token is labelled by its number, from 0."""
    return BatchLabels(None, None, encoder_decoder=is_pair(model))
