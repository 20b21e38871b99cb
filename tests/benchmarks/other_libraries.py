"""Torch modules of other libraries: how each was seen, against softmaxes recorded below torch, and its cost.

Those of libraries that are installed, with random weights.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from attn_cli import FullMatrix, HeadStatistics, capture, reduce
from attn_cli.call import Call
from attn_cli.errors import LoadError
from tests.benchmarks.timing import compared

Matrices = list[np.ndarray]
BAR = 1e-5
_ATEN = torch.ops.aten
_SOFTMAX = {_ATEN._softmax.default, _ATEN._safe_softmax.default}


@dataclass(frozen=True)
class Case:
    """A module of a library and the inputs of its forward; `sees` is "softmax" or the reason why nothing is shown."""

    library: str
    name: str
    make: Callable[[Any], nn.Module]
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    sees: str = "softmax"


def _images(side: int, count: int = 2) -> Callable[[], tuple[torch.Tensor, ...]]:
    return lambda: (torch.randn(count, 3, side, side),)


def _ids(n: int = 9, count: int = 2) -> Callable[[], tuple[torch.Tensor, ...]]:
    return lambda: (torch.randint(4, 20, (count, n)),)


def _timm(name: str, side: int, sees: str = "softmax") -> Case:
    return Case("timm", name, lambda timm: timm.create_model(name, pretrained=False), _images(side), sees)


def _decoder(**options: Any) -> Callable[[Any], nn.Module]:
    return lambda x: x.TransformerWrapper(
        num_tokens=50, max_seq_len=32, attn_layers=x.Decoder(dim=32, depth=2, heads=4, **options)
    )


class _OfProteins:
    """In place of ESM-C's tokenizer, of which the module asks one number."""

    pad_token_id = 1


# Of torchaudio's wav2vec 2.0, small.
_WAV2VEC2: dict[str, Any] = {
    "extractor_mode": "group_norm", "extractor_conv_layer_config": [(16, 10, 5), (16, 3, 2)],
    "extractor_conv_bias": False, "encoder_embed_dim": 32, "encoder_projection_dropout": 0.0,
    "encoder_pos_conv_kernel": 16, "encoder_pos_conv_groups": 4, "encoder_num_layers": 2, "encoder_num_heads": 4,
    "encoder_attention_dropout": 0.0, "encoder_ff_interm_features": 64, "encoder_ff_interm_dropout": 0.0,
    "encoder_dropout": 0.0, "encoder_layer_norm_first": False, "encoder_layer_drop": 0.0, "aux_num_out": None,
}  # fmt: skip

CASES = (
    _timm("vit_tiny_patch16_224", 224),
    _timm("deit_tiny_distilled_patch16_224", 224),
    _timm("eva02_tiny_patch14_224", 224),
    _timm("vit_base_patch16_siglip_224", 224),
    _timm("vit_srelpos_small_patch16_224", 224),
    _timm("swin_tiny_patch4_window7_224", 224),
    _timm("swinv2_tiny_window8_256", 256),
    _timm("cait_xxs24_224", 224),
    _timm("pvt_v2_b0", 224),
    _timm("twins_svt_small", 224),
    _timm("crossvit_tiny_240", 240),
    _timm("levit_128", 224),
    _timm("mobilevit_xs", 224),
    _timm("visformer_tiny", 224),
    _timm("hiera_tiny_224", 224),
    _timm("gcvit_xxtiny", 224),
    _timm("nest_tiny", 224),
    _timm("davit_tiny", 224),
    _timm("xcit_nano_12_p16_224", 224),
    _timm("coat_tiny", 224, "no softmax over keys"),
    _timm("lambda_resnet26t", 256, "no softmax over keys"),
    _timm("efficientvit_b0", 224, "no attention was seen"),
    _timm("convnext_tiny", 224, "no matrices were multiplied"),
    Case("torchvision", "vit_b_16", lambda x: x.models.vit_b_16(), _images(224)),
    Case("torchvision", "swin_t", lambda x: x.models.swin_t(), _images(224)),
    Case("torchvision", "maxvit_t", lambda x: x.models.maxvit_t(), _images(224, 1)),
    Case(
        "open_clip", "ViT-B-32", lambda x: x.create_model("ViT-B-32"),
        lambda: (torch.randn(2, 3, 224, 224), torch.randint(1, 400, (2, 77))),
    ),
    Case("x_transformers", "Decoder", _decoder(), _ids()),
    Case("x_transformers", "Decoder, flash, rotary", _decoder(attn_flash=True, rotary_pos_emb=True), _ids()),
    Case("x_transformers", "Decoder, talking heads", _decoder(attn_pre_talking_heads=True), _ids()),
    Case("x_transformers", "Decoder, ALiBi, memories", _decoder(alibi_pos_bias=True, attn_num_mem_kv=2), _ids()),
    Case(
        "vit_pytorch", "ViT",
        lambda x: x.ViT(image_size=32, patch_size=8, num_classes=3, dim=32, depth=2, heads=4, mlp_dim=32), _images(32),
    ),
    Case(
        "vit_pytorch.cait", "CaiT",
        lambda x: x.CaiT(
            image_size=32, patch_size=8, num_classes=3, dim=32, depth=2, cls_depth=1, heads=4, mlp_dim=32
        ), _images(32),
    ),
    Case("esm.model.esm2", "ESM2", lambda x: x.ESM2(num_layers=2, embed_dim=40, attention_heads=4), _ids()),
    Case("esm.models.esmc", "ESMC",
         lambda x: x.ESMC(d_model=64, n_heads=4, n_layers=2, tokenizer=_OfProteins()), _ids()),
    Case("dinov2.models.vision_transformer", "vit_small, registers", lambda x: x.vit_small(
        img_size=56, patch_size=14, num_register_tokens=4), _images(56)),
    Case("torchaudio", "wav2vec2_model", lambda x: x.models.wav2vec2_model(**_WAV2VEC2),
         lambda: (torch.randn(2, 4000),)),
    Case("torchaudio", "Conformer", lambda x: x.models.Conformer(32, 4, 64, 2, 15),
         lambda: (torch.randn(2, 9, 32), torch.tensor([9, 9]))),
    Case("torchaudio", "Emformer", lambda x: x.models.Emformer(32, 4, 64, 2, 4, right_context_length=1),
         lambda: (torch.randn(2, 13, 32), torch.tensor([12, 12]))),
    Case("x_transformers", "Encoder", lambda x: x.TransformerWrapper(
        num_tokens=50, max_seq_len=32, attn_layers=x.Encoder(dim=32, depth=2, heads=4)), _ids()),
    Case("performer_pytorch", "PerformerLM", lambda x: x.PerformerLM(
        num_tokens=50, max_seq_len=32, dim=32, depth=2, heads=4, dim_head=8), _ids(), "no softmax over keys"),
    Case("torch", "nn.TransformerEncoder", lambda _: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 3), lambda: (torch.randn(2, 9, 32),)),
    Case("torch", "nn.Transformer", lambda _: nn.Transformer(32, 4, 2, 2, 64),
         lambda: (torch.randn(5, 2, 32), torch.randn(6, 2, 32))),
)  # fmt: skip


class Softmaxes(TorchDispatchMode):
    """The rows of every softmax below torch's functions; of fused attention by a plain softmax of its q and k."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: Matrices = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in _SOFTMAX:
            self._keep(result)
        elif func is _ATEN._scaled_dot_product_flash_attention_for_cpu.default:
            query, key = args[:2]
            causal = args[4] if len(args) > 4 else kwargs.get("is_causal", False)
            scale = kwargs.get("scale") or query.shape[-1] ** -0.5
            scores = torch.einsum("bhid,bhjd->bhij", query, key) * scale
            if causal:
                scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
            if (mask := kwargs.get("attn_mask")) is not None:
                scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
            self._keep(scores.softmax(-1))
        return result

    def _keep(self, weights: torch.Tensor) -> None:
        if weights.ndim > 2:
            self.weights += list(weights.detach().float().reshape(-1, *weights.shape[-2:]).numpy())


def furthest(seen: Matrices, recorded: Matrices) -> float:
    """The largest difference of matrices `[n, m]` from those recorded, in the same order; inf for one that isn't there.

    Recorded ones between them may be no attention.
    """
    worst, at = 0.0, 0
    for matrix in seen:
        while at < len(recorded) and (
            recorded[at].shape != matrix.shape or np.abs(recorded[at] - matrix).max() > 1000 * BAR
        ):
            at += 1
        if at == len(recorded):
            return np.inf
        worst, at = max(worst, float(np.abs(recorded[at] - matrix).max())), at + 1
    return worst


def lines(repeats: int = 3) -> Iterator[str]:
    """A line for each module of an installed library."""
    warnings.simplefilter("ignore")
    seen = missed = 0
    for case in CASES:
        try:
            library = import_module(case.library)
        except ImportError:
            yield f"{case.library} {case.name}: not installed"
            continue
        torch.manual_seed(0)
        line, is_right = _told(case, case.make(library).eval(), repeats)
        seen, missed = seen + 1, missed + (not is_right)
        yield f"{case.library} {case.name}: {line}"
    yield f"{seen} modules, {missed} of them wrong (bar 0)"


@torch.no_grad()
def _told(case: Case, module: nn.Module, repeats: int) -> tuple[str, bool]:
    """What is said of a module, and whether it is right."""
    inputs = case.inputs()
    matrices: Matrices = []
    ways: dict[str, int] = {}

    def visit(call: Call) -> None:
        ways[call.place.way] = ways.get(call.place.way, 0) + 1
        weights = reduce(call, FullMatrix()).parts[0].weights
        matrices.extend(np.asarray(weights).reshape(-1, call.n, call.m))

    try:
        with capture(module, visit) as ledger:
            module(*inputs)
    except LoadError as error:
        return f"refused: {error}", case.sees in str(error)
    torch.backends.mha.set_fastpath_enabled(False)  # one fused operation, whose weights nobody sees
    try:
        with Softmaxes() as recorder:
            module(*inputs)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    apart = furthest(matrices, recorder.weights)
    others = f", {len(ledger.not_over_keys)} modules without a softmax over keys" if ledger.not_over_keys else ""

    def looked() -> None:
        with capture(module, lambda call: reduce(call, HeadStatistics())):
            module(*inputs)

    _, ratios = compared(lambda: module(*inputs), {"heads": looked}, repeats)
    told = ", ".join(f"{count} calls by {way}" for way, count in ways.items())
    whole = f"{told}{others}; {len(ledger.calls)} layers; {apart:.1e} apart; heads {ratios['heads']:.2f} plain passes"
    return whole, apart <= BAR and case.sees == "softmax" and not ledger.unseen
