"""As many tokens as a type has positions, one more, and twice: what its model runs, and what `attn` does of it."""

from collections.abc import Iterator
from inspect import signature
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel

from attn_cli.errors import AttnError, LimitError
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.read.positions import check_tokens, position_limit, trained_count
from attn_cli.sources.huggingface.read.tokenize import labels
from attn_cli.sources.huggingface.source import ModelSource
from tests.architectures.inputs import TOKENS
from tests.architectures.tiny import tiny_model

_MOST = 1000  # tokens


class Row(NamedTuple):
    """The result for a type, or for its decoder: its limit, and at each length "runs", "too long" or an error."""

    name: str
    limit: int | None
    model: tuple[str, ...] = ()
    attn: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """True if attn runs what the model runs, and refuses the rest as too long."""
        return all(own == "runs" if shown == "runs" else shown == "too long" != own
                   for own, shown in zip(self.model, self.attn, strict=True))  # fmt: skip


def rows(name: str) -> Iterator[Row]:
    """The results for a type that reads text, and for its decoder."""
    model = tiny_model(name, "tiny")
    if "input_ids" not in signature(model.forward).parameters or not _runs(model, _inputs(model, 12, decoder=False)):
        return
    for decoder in (False, True) if model.config.is_encoder_decoder else (False,):
        stated, limit = trained_count(model.config, decoder=decoder), position_limit(model, decoder=decoder)
        known = limit or stated or 64
        lengths = (known, known + 1, 2 * known + 3)
        if lengths[-1] > _MOST:
            yield Row(name, limit)
            continue
        inputs = [_inputs(model, n, decoder=decoder) for n in lengths]
        own = tuple("runs" if _runs(model, x) else "fails" for x in inputs)
        shown = tuple(_attn(model, x, n, limit) for n, x in zip(lengths, inputs, strict=True))
        yield Row(name, limit, own, shown)


def _inputs(model: PreTrainedModel, n: int, *, decoder: bool) -> dict[str, Any]:
    ids = {"decoder_input_ids" if decoder else "input_ids": TOKENS.repeat(1, n // 12 + 1)[:, :n]}
    inputs = {"input_ids": TOKENS} | ({"decoder_input_ids": TOKENS[:, :4]} if model.config.is_encoder_decoder else {})
    return inputs | ids


@torch.no_grad()
def _runs(model: PreTrainedModel, inputs: dict[str, Any]) -> bool:
    more = {"use_cache": False} if "use_cache" in signature(model.forward).parameters else {}
    try:
        model(**inputs, **more)
    except Exception:  # models raise anything
        return False
    return True


def _attn(model: PreTrainedModel, inputs: dict[str, Any], n: int, limit: int | None) -> str:
    decoder = (
        {"decoder": labels(None, inputs["decoder_input_ids"][0].tolist())} if "decoder_input_ids" in inputs else {}
    )
    prompt = Prompt("", labels(None, inputs["input_ids"][0].tolist()), others=decoder)
    source = ModelSource(LoadedModel(model, None, {"model": "tiny", "type": ""}, Origin("", "", OriginOptions())))
    try:
        check_tokens(n, limit)
        source.each([prompt], Selection(), lambda call: None)
    except LimitError:
        return "too long"
    except AttnError as error:
        return error.message
    return "runs"
