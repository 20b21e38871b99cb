"""A forward pass with attn's attention in place, plain or with a batch of interventions."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from attn_cli.selection import Selection
from attn_cli.sources.huggingface.capture.batch_labels import BatchLabels
from attn_cli.sources.huggingface.capture.function_mode import watching
from attn_cli.sources.huggingface.capture.lazy_mask import lazy_mask
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.registry import all_named, replaced
from attn_cli.sources.huggingface.intervene.attention import InterveningAttention, InterveningOwnCode
from attn_cli.sources.huggingface.intervene.batch import InterventionBatch
from attn_cli.sources.huggingface.intervene.plain_calls import PlainCalls


@contextmanager
def intervening(
    model: PreTrainedModel, stack: PreTrainedModel, plain: PlainCalls, batch: InterventionBatch | None
) -> Iterator[Ledger]:
    """Context manager: forward passes of `model` compute their attention here; with `batch` they lack what it names.

    stack  the part of `model` whose layers are looked at elsewhere: its paths name the layers here, too
    plain  takes in the calls of a plain run, for which `batch` is None

    Yields the ledger of the pass. Everything is put back at the end, as in a capture.
    """
    labels = BatchLabels(None, None, encoder_decoder=bool(getattr(model.config, "is_encoder_decoder", False)))
    ledger = Ledger(stack, Selection(), labels)
    attention = InterveningAttention(ledger, plain, batch)
    with ExitStack() as exits:
        exits.enter_context(replaced(AttentionInterface, {"eager": attention.compute}))
        exits.enter_context(replaced(AttentionMaskInterface, {"eager": lazy_mask}))
        exits.enter_context(all_named(model, "eager"))
        reader = stack.register_forward_pre_hook(labels.read_arguments, with_kwargs=True)
        exits.callback(reader.remove)
        exits.enter_context(watching(stack, InterveningOwnCode(attention)))
        yield ledger
