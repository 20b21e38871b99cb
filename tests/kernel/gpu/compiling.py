"""Compiles every kernel for a GPU, which needs none: python -c "... main()" TYPE ROWS KEYS WARPS STAGES."""

import sys

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from attn_cli.kernel.gpu import kernels

H100 = GPUTarget("cuda", 90, 32)
NUMBERS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
FLOATS = ("sink", "slopes", "bias", "numbers", "logsumexp", "received", "pooled", "weights")
INTEGERS = ("first", "last", "picked", "finite", "begin_rows", "end_rows", "cell_keys")
SWITCHES = ("CAPPED", "SLOPED", "BIASED")
ALIGNED = ("q", "q_head", "q_row", "k", "k_head", "k_row", "v", "v_head", "v_row", "d", "e", "output", "output_row")
MARKED = "forward with marks"
OWN = {
    "forward": {"E": 64, "SINK": False, "OUTPUT": True, "MOMENTS": True, "REPAIRS": False, "OF_VALUES": "ieee"},
    MARKED: {"E": 16, "SINK": False, "OUTPUT": True, "MOMENTS": False, "REPAIRS": True, "OF_VALUES": "tf32x3"},
    "column_sums": {},
    "blocks": {"SUMS": False},
    "cell_weights": {},
    "largest_keys": {"COUNT": 8},
}


def main() -> None:
    dtype, *sizes = sys.argv[1:]
    rows, keys, warps, stages = map(int, sizes)
    for name, own in OWN.items():
        kernel = getattr(kernels, name.split()[0])
        shape = {"ROWS": rows, "KEYS": keys, "D": 64, "PRECISION": "ieee", **dict.fromkeys(SWITCHES, False), **own}
        constants = {name: value for name, value in shape.items() if name in kernel.arg_names}
        types = dict.fromkeys(FLOATS, "*fp32") | dict.fromkeys(INTEGERS, "*i32") | {"top": "*i64"}
        types |= dict.fromkeys(("q", "k", "v", "output"), f"*{NUMBERS[dtype]}") | dict.fromkeys(
            ("scale", "softcap"), "fp32"
        )
        types |= dict.fromkeys(("v", "output"), "*fp32") if name == MARKED else {}
        signature = {x: "constexpr" if x in constants else types.get(x, "i32") for x in kernel.arg_names}
        place = kernel.arg_names.index
        source = ASTSource(
            kernel,
            signature,
            {(place(x),): value for x, value in constants.items()},
            {(place(x),): [["tt.divisibility", 16]] for x in ALIGNED if x in kernel.arg_names},
        )
        built = compile(source, target=H100, options={"num_warps": warps, "num_stages": stages})
        print(f"{name}:", built.metadata.shared)
