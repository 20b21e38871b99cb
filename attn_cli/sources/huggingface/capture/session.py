"""Capturing every attention layer of a transformers model in its own forward pass.

transformers looks its attention code up in a registry at every call. While a capture is open, the entry "eager" is
attn's own function, and so is the mask function of that name; the models' configurations say "eager". The function
gets q and k (after rotary positions), v, the mask and the scale of every layer, passes them to the visitor as an
`AttentionCall`, and returns the output that was computed meanwhile. Everything is put back at the end.

Why the key "eager" and not one of our own: some models test for that name and silently attend differently under an
unknown one, others choose classes by it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel, PreTrainedTokenizerBase

from attn_cli.prompt import Token
from attn_cli.selection import ALL, Selection
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.capture.attention_function import AttentionFunction, Tap
from attn_cli.sources.huggingface.capture.batch_labels import BatchLabels
from attn_cli.sources.huggingface.capture.batch_visitor import BatchVisitor, Visit
from attn_cli.sources.huggingface.capture.function_mode import watching
from attn_cli.sources.huggingface.capture.lazy_mask import lazy_mask
from attn_cli.sources.huggingface.capture.ledger import Ledger, SelectionDone
from attn_cli.sources.huggingface.capture.own_code import OwnCode
from attn_cli.sources.huggingface.capture.registry import all_named, replaced
from attn_cli.sources.huggingface.rope.reader import RotationReader


@contextmanager
def capture(
    model: PreTrainedModel,
    visit: Visit,
    *,
    selection: Selection = ALL,
    texts: Sequence[Sequence[Token]] | None = None,
    others: Sequence[Mapping[str, Sequence[Token]]] | None = None,
    rotations: bool = False,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> Iterator[Ledger]:
    """Context manager: calls `visit` once per selected layer and text of every forward pass of `model`.

    visit      gets each `AttentionCall`: queries `[h, n, d]`, keys `[g, m, d]`, values `[g, m, e]` and their rule. The
               arrays are the model's own: read them during the visit, and don't change them.
    selection  layers and heads; all by default
    texts      the tokens of each text of the batch, to label rows and columns; without them they are numbered. Padding
               is cut away either way: a padded text gives the same calls as if it ran alone.
    tokenizer  of the model, in place of texts: labels the tokens of every pass by their ids
    others     for each text the tokens of the streams that read something else, by stream: decoder, vision, audio
    rotations  also find out, for calls that ask, how rotary positions turned their queries and keys

    Yields the ledger of the pass: which layers attended and how often, and which could not be captured. If its
    `projections` are set, to what `find_projections` returns, calls carry W_O. Its `end_after_selection()` ends passes
    after the last selected layer: an exception is raised through the model and caught here, and there is no model
    output then. Attention outside the registry is captured by a function mode; `Place.way` says how each call was
    captured.

    The model's outputs stay what they were to within rounding, its configuration is put back at the end. The registry
    of transformers is one for the whole process: don't run other models in other threads meanwhile.

        with capture(model, lambda call: summaries.append(reduce(call, TopKeys(5)))):
            model(**inputs)
    """
    is_pair = bool(getattr(model.config, "is_encoder_decoder", False))
    labels = BatchLabels(texts, others, encoder_decoder=is_pair, tokenizer=tokenizer)
    ledger = Ledger(model, selection, labels)
    reader = RotationReader() if rotations else None
    visitor = BatchVisitor(visit, ledger, rotations=reader)
    with watched(model, visitor):
        yield ledger


@contextmanager
def watched(
    model: PreTrainedModel,
    visitor: BatchVisitor,
    *,
    tap: Tap | None = None,
) -> Iterator[None]:
    """Context manager: passes the attention of every forward pass of `model` to `visitor`, as in `capture`.

    tap  a function through which every layer's output goes
    """
    ledger = visitor.ledger
    function = AttentionFunction(ledger, visitor, tap)
    ran: set[nn.Module] = set()
    with ExitStack() as stack:
        stack.enter_context(replaced(AttentionInterface, {"eager": function.compute}))
        stack.enter_context(replaced(AttentionMaskInterface, {"eager": lazy_mask}))
        stack.enter_context(all_named(model, "eager"))
        if visitor.row_of_texts is None:
            labelling = model.register_forward_pre_hook(ledger.labels.read_arguments, with_kwargs=True)
            stack.callback(labelling.remove)
        else:
            ledger.labels.read_arguments(model, (), visitor.row_of_texts.padded)
        stack.enter_context(visitor.blocks.watching(ledger.places.attention_blocks))
        if visitor.rotations is not None:
            stack.enter_context(visitor.rotations.watching(ledger.places.attention))
        noting = [module.register_forward_pre_hook(lambda x, _: ran.add(x)) for module in ledger.places.in_registry]
        stack.enter_context(hooked(*noting))
        stack.enter_context(watching(OwnCode(ledger, visitor, tap)))
        stack.enter_context(suppress(SelectionDone))
        yield
    ledger.record_silent(ran)
