"""Ways of packing weights: a tiny model saved in each, read back, and held against the model that it stands for.

    python -m tests.packings [NAME ...]

prints a row for each: the largest difference of any attention weight from eager's on the same folder, that from the
weights unpacked by hand where the format is written here, and the processor time against the plain pass. Packages that
pack weights aren't in the tests' environment: put them on PYTHONPATH. The row of one that isn't there says how attn
refuses.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, GptOssConfig, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from attn_cli.call import Call
from attn_cli.errors import AttnError
from attn_cli.selection import Selection
from attn_cli.sources import open_source
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads.head_statistics import HeadStatistics
from tests.media import tokenizer

TEXT = "the cat sat"
SHAPE = {"vocab_size": len(tokenizer()), "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.2}  # fmt: skip
_GROUP, _BLOCK = 32, 32
_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # of the eight numbers in one of AWQ's words
_E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Packing:
    """A way of packing weights.

    package  that packs and unpacks them; "" for transformers alone
    config   the quantisation by which transformers packs a folder; else that of config.json
    packed   one matrix `[out, in]` as its packed tensors by their suffixes, and as the numbers that they stand for;
             None where the package packs
    rounding the largest difference of an attention weight that the package's own precision makes
    """

    name: str
    package: str
    config: Callable[[], Any]
    packed: Callable[[torch.Tensor], tuple[Tensors, torch.Tensor]] | None = None
    experts: bool = False
    rounding: float = 2e-6

    def __str__(self) -> str:
        return self.name

    def save(self, folder: Path) -> PreTrainedModel | None:
        """Write a tiny packed model; the same with its weights unpacked by hand, where they are packed here."""
        torch.manual_seed(0)
        model = _gpt_oss() if self.experts else LlamaForCausalLM(LlamaConfig(**SHAPE))
        tokenizer().save_pretrained(folder)
        if self.packed is None:
            model.save_pretrained(folder / "plain")
            theirs = AutoModelForCausalLM.from_pretrained(folder / "plain", quantization_config=self.config())
            theirs.save_pretrained(folder)
            return None
        packed: Tensors = {}
        for name, x in list(model.state_dict().items()):
            if not self._packs(name):
                packed[name] = x
                continue
            tensors, numbers = self.packed(x)
            stem = name if self.experts else name.removesuffix(".weight")
            packed |= {stem + suffix: each.contiguous() for suffix, each in tensors.items()}
            with torch.no_grad():
                model.get_parameter(name).copy_(numbers)
        model.config.quantization_config = self.config()
        model.config.architectures = [type(model).__name__]
        model.config.save_pretrained(folder)
        del model.config.quantization_config
        save_file(packed, folder / "model.safetensors", metadata={"format": "pt"})
        return model

    def _packs(self, name: str) -> bool:
        if self.experts:
            return name.endswith(("gate_up_proj", "down_proj"))
        return "proj.weight" in name


def _gpt_oss() -> PreTrainedModel:
    shape = {**SHAPE, "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16, "sliding_window": 8}
    return AutoModelForCausalLM.from_config(GptOssConfig(**shape))


def _fp8(x: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Blocks of 32 x 32 cells in eight bits, each with a factor (DeepSeek-V3)."""
    blocks = x.reshape(x.shape[0] // _BLOCK, _BLOCK, -1, _BLOCK)
    scale = blocks.abs().amax(dim=(1, 3), keepdim=True) / 448
    cells = (blocks / scale).to(torch.float8_e4m3fn)
    numbers = (cells.float() * scale).reshape(x.shape)
    return {".weight": cells.reshape(x.shape), ".weight_scale_inv": scale[:, 0, :, 0].float()}, numbers


def _mxfp4(x: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Four bits a number, 32 of them with a power of two; `[experts, in, out]`, packed along `in`."""
    rows = x.transpose(1, 2).float()
    groups = rows.reshape(*rows.shape[:2], -1, 32)
    exponent = torch.floor(torch.log2(groups.abs().amax(dim=-1, keepdim=True))) - 2
    codes = (groups[..., None] / 2 ** exponent[..., None] - _E2M1).abs().argmin(dim=-1)
    numbers = (_E2M1[codes] * 2**exponent).reshape(rows.shape).transpose(1, 2)
    bytes_ = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)
    return {"_blocks": bytes_, "_scales": (exponent[..., 0] + 127).to(torch.uint8)}, numbers


def _four_bits(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes `[in, out]`, and for each group of inputs zero `[groups, out]`, factor, and the numbers `[out, in]`."""
    groups = x.T.reshape(-1, _GROUP, x.shape[0])
    low, high = groups.amin(dim=1), groups.amax(dim=1)
    scale = ((high - low) / 15).half()
    zero = torch.round(-low / scale.float()).clamp(1, 15).int()
    codes = (torch.round(groups / scale.float()[:, None]) + zero[:, None]).clamp(0, 15).int()
    numbers = ((codes - zero[:, None]) * scale.float()[:, None]).reshape(x.T.shape).T
    return codes.reshape(x.T.shape), zero, scale, numbers


def _words(codes: torch.Tensor, order: tuple[int, ...] = tuple(range(8))) -> torch.Tensor:
    """Eight numbers of four bits in each word, along the last axis."""
    by_eight = codes.reshape(*codes.shape[:-1], -1, 8).long()[..., list(order)]
    words = (by_eight << (4 * torch.arange(8))).sum(dim=-1)
    return torch.where(words >= 2**31, words - 2**32, words).int()


def _gptq(x: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    codes, zero, scale, numbers = _four_bits(x)
    places = torch.arange(x.shape[1], dtype=torch.int32) // _GROUP
    return {".qweight": _words(codes.T).T, ".qzeros": _words(zero - 1), ".scales": scale, ".g_idx": places}, numbers


def _awq(x: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    codes, zero, scale, numbers = _four_bits(x)
    return {".qweight": _words(codes, _ORDER), ".qzeros": _words(zero, _ORDER), ".scales": scale}, numbers


def _int4(x: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Four bits a number, a factor for each output."""
    scale = x.abs().amax(dim=1, keepdim=True) / 7
    codes = torch.round(x / scale).int()
    shape = torch.tensor(x.shape)
    return {".weight_packed": _words(codes + 8), ".weight_scale": scale, ".weight_shape": shape}, codes * scale


_OF_GROUP = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "channel"}}


def _transformers(name: str, *arguments: Any, **options: Any) -> Callable[[], Any]:
    def config() -> Any:
        import transformers

        made = [each() if callable(each) else each for each in arguments]
        return getattr(transformers, name)(*made, **options)

    return config


def _torchao(name: str) -> Callable[[], Any]:
    def config() -> Any:
        from torchao import quantization

        return getattr(quantization, name)()

    return config


def _settings(**settings: Any) -> Callable[[], Any]:
    return lambda: settings


PACKINGS = {each.name: each for each in (
    Packing("bitsandbytes, 8 bit", "bitsandbytes", _transformers("BitsAndBytesConfig", load_in_8bit=True)),
    Packing("bitsandbytes, 4 bit", "bitsandbytes", _transformers("BitsAndBytesConfig", load_in_4bit=True)),
    Packing("torchao, int8", "torchao", _transformers("TorchAoConfig", _torchao("Int8WeightOnlyConfig"))),
    Packing("torchao, int4", "torchao", _transformers("TorchAoConfig", _torchao("Int4WeightOnlyConfig"))),
    Packing("torchao, float8", "torchao", _transformers("TorchAoConfig", _torchao("Float8WeightOnlyConfig"))),
    Packing("quanto, int8", "optimum.quanto", _transformers("QuantoConfig", weights="int8")),
    Packing("hqq, 4 bit", "hqq", _transformers("HqqConfig", nbits=4, group_size=64)),
    Packing("GPTQ, 4 bit", "gptqmodel", _settings(quant_method="gptq", bits=4, group_size=_GROUP, desc_act=False,
                                                  sym=False, checkpoint_format="gptq", backend="torch"), _gptq),
    Packing("AWQ, 4 bit", "gptqmodel", _settings(quant_method="awq", bits=4, group_size=_GROUP, zero_point=True,
                                                 version="gemm", backend="torch_awq"), _awq, rounding=0.01),
    Packing("compressed-tensors, int4", "compressed_tensors",
            _settings(quant_method="compressed-tensors", format="pack-quantized", quantization_status="compressed",
                      config_groups={"group_0": _OF_GROUP}, ignore=["lm_head"]), _int4),
    Packing("fp8 in blocks", "", _settings(quant_method="fp8", activation_scheme="dynamic",
                                           weight_block_size=[_BLOCK, _BLOCK]), _fp8),
    Packing("mxfp4", "", _settings(quant_method="mxfp4"), _mxfp4, experts=True),
)}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """What attn makes of a packed folder.

    by_eager  the largest difference of a weight from transformers' eager attention on the same folder
    by_hand   that from the weights unpacked by hand; None where the package packs
    """

    by_eager: float
    by_hand: float | None


def found(packing: Packing, folder: Path) -> Found:
    """The differences; AttnError where attn refuses the folder."""
    by_hand = packing.save(folder)
    source = open_source(str(folder))
    prompt = source.read([TEXT])[0]
    weights: dict[int, np.ndarray] = {}

    def visit(call: Call) -> None:
        weights[call.place.layer] = np.concatenate([band.weights.float().numpy() for band in call.bands()], axis=-2)

    source.each([prompt], Selection(), visit)
    theirs = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    model = None if by_hand is None else _in_types_of(theirs, by_hand.eval().to(theirs.dtype))
    return Found(_largest(theirs, weights), None if model is None else _largest(model, weights))


def _in_types_of(theirs: PreTrainedModel, model: PreTrainedModel) -> PreTrainedModel:
    """The model with each of its unpacked matrices in the precision in which transformers' own computes with it.

    Releases differ: before 5.21 experts of MXFP4 stay in bfloat16, which holds each of their numbers and rounds what
    they are multiplied by.
    """
    types = {name: each.dtype for name, each in theirs.named_parameters()}
    for name, each in model.named_parameters():
        each.data = each.data.to(types.get(name, each.dtype))
    return model


@torch.no_grad()
def _largest(model: PreTrainedModel, weights: dict[int, np.ndarray]) -> float:
    model.set_attn_implementation("eager")
    ids = tokenizer()(TEXT, return_tensors="pt").input_ids
    expected = model(ids, output_attentions=True).attentions
    return max(float(np.abs(weights[at] - x[0].float().numpy()).max()) for at, x in enumerate(expected))


@torch.no_grad()
def _times(folder: Path) -> float:
    """Processor time of `attn heads` on a text against that of the plain pass: the median of seven pairs."""
    source, plain = open_source(str(folder)), AutoModelForCausalLM.from_pretrained(folder).eval()
    prompt = source.read([" ".join([TEXT] * 60)])[0]
    ids = torch.tensor([[token.id for token in prompt.tokens]])

    def ours() -> None:
        source.each([prompt], Selection(), lambda call: reduce(call, HeadStatistics()))

    runs = [[_seconds(ours), _seconds(lambda: plain(ids, logits_to_keep=1))] for _ in range(8)][1:]
    return statistics.median(mine / its for mine, its in runs)


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _row(packing: Packing) -> str:
    with tempfile.TemporaryDirectory() as folder:
        try:
            differences = found(packing, Path(folder))
            by_hand = "" if differences.by_hand is None else f"{differences.by_hand:.1e}"
            return f"| {packing.name} | {differences.by_eager:.1e} | {by_hand} | {_times(Path(folder)):.2f} |"
        except AttnError as error:
            words = error.message.replace(folder, "MODEL")
            return f"| {packing.name} | refused: {words}; {error.hint} | | |"
        except Exception as error:  # of the package, while it packs
            return (
                f"| {packing.name} | not packed here: {type(error).__name__}: {str(error).splitlines()[0][:90]} | | |"
            )


def main() -> None:
    """Print the table, or the rows that are named."""
    print("| packing | largest difference from eager | from weights unpacked by hand | time, plain pass = 1 |")
    print("|---|---|---|---|")
    for name in sys.argv[1:] or PACKINGS:
        print(_row(PACKINGS[name]), flush=True)


if __name__ == "__main__":
    main()
