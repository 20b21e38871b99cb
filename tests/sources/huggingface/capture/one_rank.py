"""One of several processes that share a tiny model by tensor parallelism: what capture sees there, as lines of JSON.

torchrun --nproc-per-node 2 one_rank.py FOLDER OUT
"""

import json
import os
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from attn_cli import Heads, HeadStatistics, capture, reduce
from attn_cli.call import Call
from attn_cli.selection import ALL, Selection

IDS = [[1, 2, 3, 4, 5, 6, 7]]


def seen(model: torch.nn.Module, selection: Selection = ALL) -> list[list[float]]:
    """Layer, head, key head, entropy and largest score of each head."""
    rows: list[list[float]] = []

    def visit(call: Call) -> None:
        heads = reduce(call, HeadStatistics()).part(Heads)
        numbers = (call.place.heads, call.place.groups, heads.entropy_bits.tolist(), heads.max_score.tolist())
        rows.extend([call.place.layer, *row] for row in zip(*numbers, strict=True))

    with torch.no_grad(), capture(model, visit, selection=selection):
        model(torch.tensor(IDS))
    return rows


def main() -> None:
    """Write what this rank sees."""
    folder, out = sys.argv[1:]
    model = AutoModelForCausalLM.from_pretrained(folder, tp_plan="auto").eval()
    found = {"all": seen(model), "some": seen(model, Selection(heads=(0, 3)))}
    Path(out, os.environ["RANK"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
