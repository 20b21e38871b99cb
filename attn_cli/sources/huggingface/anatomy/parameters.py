"""A module's parameters: their device and number type, a hash, and the memory that a pass takes by their sizes."""

from hashlib import blake2b

import torch
from torch import nn

from attn_cli.sources.huggingface.anatomy.configuration import number_of

_BLOCK = 4096  # numbers that are added up as integers: a change of any of them shows
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def fingerprint(model: nn.Module) -> str:
    """A hash of the parameters: of names and shapes, sums of the bits of all numbers, and up to 64 numbers of each."""
    digest = blake2b(digest_size=16)
    for name, parameter in model.named_parameters():
        flat = parameter.detach().reshape(-1)
        some = flat[:: max(1, flat.numel() // 64)][:64].float().cpu().numpy()
        digest.update(f"{name} {tuple(parameter.shape)}".encode() + some.tobytes())
        bits, blocks = flat.view(_BITS[flat.element_size()]), flat.numel() // _BLOCK
        for part in (bits[: blocks * _BLOCK].view(blocks, _BLOCK), bits[None, blocks * _BLOCK :]):
            digest.update(part.sum(dim=1, dtype=torch.int64).cpu().numpy().tobytes())
    return digest.hexdigest()


def device_of_module(module: nn.Module) -> torch.device:
    """The device of its first parameter; the CPU for a module without any."""
    return next((x.device for x in module.parameters()), torch.device("cpu"))


def dtype_of_module(module: nn.Module) -> torch.dtype:
    """The type of its first parameter of floats; float32 for a module without any."""
    return next((x.dtype for x in module.parameters() if x.is_floating_point()), torch.float32)


_HIDDEN, _WIDEST = 6, 4  # arrays of a block at once: residuals, norms, projections; of its feed-forward part


def bytes_of_token(model: nn.Module) -> int:
    """The most bytes that an ordinary block holds for each token, estimated from its matrices."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    head = getattr(model, "get_output_embeddings", lambda: None)()
    leave_out = embeddings | {id(getattr(head, "weight", None))}
    sizes = [(*weight.shape[-2:], weight.element_size()) for weight in model.parameters()
             if weight.ndim > 1 and id(weight) not in leave_out]  # fmt: skip
    experts = number_of(getattr(model, "config", None), "num_experts_per_tok") or 1
    return max((size * (_HIDDEN * min(rows, columns) + _WIDEST * experts * max(rows, columns))
                for rows, columns, size in sizes), default=0)  # fmt: skip
