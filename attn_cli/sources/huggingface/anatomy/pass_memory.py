"""The memory that a model's own pass takes for a token, by the sizes of its weights."""

from torch import nn

from attn_cli.sources.huggingface.anatomy.configuration import number_of

_HIDDEN, _WIDEST = 6, 4  # arrays of a block at once: residuals, norms, projections; of its feed-forward part


def bytes_of_token(model: nn.Module) -> int:
    """Bytes of what a block holds at once for a token, an upper bound where blocks are as usual.

    Embeddings and the matrix before the vocabulary don't count: of a token one row is read, and one token is predicted.
    """
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    head = getattr(model, "get_output_embeddings", lambda: None)()
    leave_out = embeddings | {id(getattr(head, "weight", None))}
    sizes = [(*weight.shape[-2:], weight.element_size()) for weight in model.parameters()
             if weight.ndim > 1 and id(weight) not in leave_out]  # fmt: skip
    experts = number_of(getattr(model, "config", None), "num_experts_per_tok") or 1
    return max((size * (_HIDDEN * min(rows, columns) + _WIDEST * experts * max(rows, columns))
                for rows, columns, size in sizes), default=0)  # fmt: skip
