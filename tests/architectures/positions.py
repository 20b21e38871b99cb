"""`python -m tests.architectures.positions [TYPE ...]`: as many tokens as a type has positions, one more, and twice.

For each type that reads text the limit that `attn` finds, how its model places tokens, and whether the model and `attn`
run: they agree if `attn` runs what the model runs, and refuses the rest as too long. All types write POSITIONS.md.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from transformers import PreTrainedModel

from attn_cli.errors import AttnError, LimitError
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.configuration import number_of, text_configuration
from attn_cli.sources.huggingface.anatomy.streams import in_tower
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.read import positions
from attn_cli.sources.huggingface.read.positions import check_tokens, position_limit, trained_count
from attn_cli.sources.huggingface.read.tokenize import labels
from attn_cli.sources.huggingface.source import ModelSource
from tests.architectures.inputs import TOKENS
from tests.architectures.tiny import every_type, tiny_model

_MOST = 1000  # tokens
_TABLE = Path(__file__).with_name("POSITIONS.md")
_HEAD = """# Positions

As many tokens as each type has positions, one more, and twice, in a tiny model and in `attn`, by
`python -m tests.architectures.positions` on {day} with transformers {transformers}.
{counts}.

*limit*: the tokens that `attn` reads at most (in brackets: of a note, as the model has no end).
*read from*: the table that ends there, or a field of the configuration. *decoder*: of its own.
*agree*: `attn` runs the lengths that the model runs, and refuses the others as too long. *differ*:
how many of the three run, where `attn` gives another reason for the others.

| type | limit | kind | read from | |
|---|--:|---|---|---|
"""
_KINDS = {  # by words of the names of modules, parameters and buffers, and of the modules' code; the first that fits
    "ALiBi": r"\balibi\b",
    "relative": r"relative_attention_bias|r_r_bias|distance_embedding|rel_embeddings|rel_pos",
    "rope": r"rotary|inv_freq|apply_rot",
    "table without end": r"sinusoid|embed_positions|position_emb",
}


class Row(NamedTuple):
    """The result for one type: its limit, how tokens are placed, and at each length "runs", "too long" or an error."""

    name: str
    part: str
    stated: int | None
    limit: int | None
    kind: str
    source: str
    model: tuple[str, ...] = ()
    attn: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        return self.verdict == "agree"

    @property
    def verdict(self) -> str:
        """That attn runs what the model runs, and refuses the rest as too long; else what differs."""
        if any("no softmax attention" in said for said in self.attn):
            return "no softmax attention"
        if all(own == "runs" if shown == "runs" else shown == "too long" != own
               for own, shown in zip(self.model, self.attn, strict=True)):  # fmt: skip
            return "agree"
        counts = [said.count("runs") for said in (self.model, self.attn)]
        return f"differ: model {counts[0]}, attn {counts[1]}"


def rows(name: str) -> Iterator[Row]:
    """The results for a type that reads text, and for its decoder."""
    model = tiny_model(name, "tiny")
    if "input_ids" not in signature(model.forward).parameters or not _runs(model, _inputs(model, 12, decoder=False)):
        return
    for decoder in (False, True) if model.config.is_encoder_decoder else (False,):
        stated, limit = trained_count(model.config, decoder=decoder), position_limit(model, decoder=decoder)
        kind, source = _kind(model, stated, limit, decoder=decoder)
        known = limit or stated or 64
        lengths = (known, known + 1, 2 * known + 3)
        if lengths[-1] > _MOST:
            yield Row(name, "decoder" * decoder, stated, limit, kind, source)
            continue
        inputs = [_inputs(model, n, decoder=decoder) for n in lengths]
        own = tuple("runs" if _runs(model, x) else "fails" for x in inputs)
        shown = tuple(_attn(model, x, n, limit) for n, x in zip(lengths, inputs, strict=True))
        yield Row(name, "decoder" * decoder, stated, limit, kind, source, own, shown)


def _kind(model: PreTrainedModel, stated: int | None, limit: int | None, *, decoder: bool) -> tuple[str, str]:
    """How tokens get their places, and where the number of positions stands."""
    if limit is not None and stated is not None and (table := positions._table(model, stated)):
        path = next(path for path, module in model.named_modules() if module is table[0])
        angles = "rotary" in positions._source(type(table[0]))
        return "table of angles" if angles else "table", ".".join(path.split(".")[-2:])
    config = text_configuration(model.config, decoder=decoder)
    names = (*positions._OF_DECODER, *positions._NAMES) if decoder else positions._NAMES
    field = next((name for name in names if (number_of(config, name) or 0) > 0), "")
    parts = [(path, x) for path, x in model.named_modules() if not in_tower(path)]
    words = " ".join([*dict(model.named_parameters()), *dict(model.named_buffers()), *(path for path, _ in parts)])
    words += " ".join({positions._source(type(x)) for _, x in parts if type(x).__module__.startswith("transformers")})
    words = words if getattr(config, "alibi", True) else words.replace("alibi", "")
    return next((kind for kind, pattern in _KINDS.items() if re.search(pattern, words)), "none"), field


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


def _line(row: Row) -> str:
    limit = row.limit or (f"({row.stated})" if row.stated else "none")
    cells = f"{row.name} {row.part}".strip(), str(limit), row.kind, row.source, row.verdict
    return f"| {' | '.join(cells)} |\n"


def main() -> None:
    """Print a row for each type, and how many agree; of all types write the table."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    lines = []
    for name in sys.argv[1:] or every_type():
        try:
            found = list(rows(name))
            new = [_line(row) for row in found] or [f"| {name} | | needs more than text | | |\n"]
            counts.update(row.verdict.partition(":")[0] for row in found)
        except Exception as error:  # of any type; it is the model's own building that failed
            counts["not built"] += 1
            new = [f"| {name} | | not built: {type(error).__name__} | | |\n"]
        print(*new, sep="", end="", flush=True)
        lines += new
    said = ", ".join(f"{count} {word}" for word, count in counts.items())
    if not sys.argv[1:]:
        head = _HEAD.format(day=date.today(), transformers=transformers.__version__, counts=said)
        _TABLE.write_text(head + "".join(lines), "utf-8")
    print(said)


if __name__ == "__main__":
    main()
