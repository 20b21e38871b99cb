"""Capturing attention in a model's own forward pass, by functions of attn's in place of the model's meanwhile."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from attn_cli.call import Visit
from attn_cli.prompt import Token
from attn_cli.selection import ALL, Selection
from attn_cli.sources.huggingface.anatomy.hooks import block_hooks, hooked
from attn_cli.sources.huggingface.capture.batch_labels import BatchLabels
from attn_cli.sources.huggingface.capture.calls import ObservedAttention
from attn_cli.sources.huggingface.capture.function_mode import watching
from attn_cli.sources.huggingface.capture.ledger import Ledger, SelectionDone, nothing_seen
from attn_cli.sources.huggingface.capture.registry import in_registry


@contextmanager
def capturing(model: nn.Module, attend: ObservedAttention, *, stack: nn.Module | None = None) -> Iterator[Ledger]:
    """Context manager: gives the attention of a module's passes to `attend`; the end of a selection is no error.

    stack   the module in `model` that reads the texts, where that isn't `model` itself

    Outputs stay the same to within rounding, unless `attend` changes them. Compiled code runs uncompiled meanwhile.
    """
    ledger, places = attend.ledger, attend.ledger.places
    blocks, attending = ({}, ()) if attend.visit is None else (places.attention_blocks, places.attention)
    handles = [module.register_forward_pre_hook(lambda module, _: ledger.ran.add(module)) for module in attending]
    handles += block_hooks(blocks, attend.enter_block)
    reader = model if stack is None else stack
    handles.append(reader.register_forward_pre_hook(ledger.labels.read_arguments, with_kwargs=True))
    with (
        hooked(*handles),
        torch.compiler.set_stance("force_eager"),
        in_registry(model, attend),
        watching(attend),
        suppress(SelectionDone),
    ):
        yield ledger
    ledger.record_silent()


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
    ledger, passes = Ledger(model, selection, BatchLabels(model, texts, others, tokenizer)), []
    ledger.places.check(selection, type(model).__name__)
    with (
        hooked(model.register_forward_hook(lambda *_: passes.append(True))),
        capturing(model, ObservedAttention(ledger, visit)),
    ):
        yield ledger
    if passes and not ledger.calls:
        raise nothing_seen(model, ledger)
