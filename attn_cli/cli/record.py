"""Make a recording of another engine's queries and keys."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.model import LoadOptions
from attn_cli.cli.kit.shell.signature import takes_options
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.dump import Dump
from attn_cli.errors import ExitCode, InputError, reason
from attn_cli.kernel.definition.masks import Causal, Open
from attn_cli.kernel.definition.rule import Rule
from attn_cli.model.source import Referring, Source
from attn_cli.prompt import Prompt, Token
from attn_cli.sources import is_model
from attn_cli.sources.dumps import TOKENS, open_dump
from attn_cli.summaries.answers.recorded_dump import FarthestRow, recording_of_dump, rules_of
from attn_cli.summaries.bisect.names import NameMap
from attn_cli.summaries.bisect.operands import DumpedOperands, HeadCounts, operands_of
from attn_cli.summaries.report import Report
from attn_cli.text import counted, excerpt, listed
from attn_cli.views import open_view

_SAME = {"float32": 1e-3, "float64": 1e-3}  # how far weights of a layer may be apart; of 16 bits further
_SAME_IN_16_BITS = 0.05


@dataclass(frozen=True)
class RuleOptions:
    """Options for the rule between queries and keys, where no model says it."""

    heads: Annotated[
        int | None, typer.Option("--heads", help="Split joined queries into H heads.", min=1, metavar="H")
    ] = None
    kv_heads: Annotated[
        int | None,
        typer.Option("--kv-heads", help="Split joined keys and values into G heads; default: H.", min=1, metavar="G"),
    ] = None
    scale: Annotated[
        float | None, typer.Option("--scale", help="Multiply q k by this; default: 1/sqrt(d).", metavar="NUMBER")
    ] = None
    softcap: Annotated[
        float | None, typer.Option("--softcap", help="Cap scores softly at this.", min=0.0, metavar="NUMBER")
    ] = None
    mask: Annotated[Literal["causal", "none"], typer.Option("--mask", help="Use causal or none.", metavar="MASK")] = (
        "causal"
    )

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the options whose value is not the default."""
        every = {"--heads": self.heads, "--kv-heads": self.kv_heads, "--scale": self.scale, "--softcap": self.softcap}
        return tuple(name for name, value in every.items() if value is not None) + (
            ("--mask",) if self.mask != "causal" else ()
        )

    def counts(self, layers: int) -> dict[int, HeadCounts]:
        """The numbers of heads of as many layers."""
        return (
            {}
            if self.heads is None
            else dict.fromkeys(range(layers), HeadCounts(self.heads, self.kv_heads or self.heads))
        )

    def rule(self, operands: DumpedOperands, layer: int) -> Rule:
        """The rule of one layer."""
        width = operands.read("q", layer).shape[2] if self.scale is None else 0
        scale = width**-0.5 if self.scale is None else self.scale
        return Rule(scale, softcap=self.softcap or None, mask=Causal() if self.mask == "causal" else Open())


@takes_options
def record(
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="DUMP", help="Read q and k of layers: .npz, .safetensors, .npy or a folder."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="MODEL", help="Take tokens' texts, heads and rules from this model."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Hold 64 rows of each layer against the model's weights.")
    ] = False,
    tokens: Annotated[
        str | None,
        typer.Option("--tokens", metavar="FILE", help="Read the token ids, a JSON list; default: the dump's own."),
    ] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="NAME=STATION",
                     help="Say what arrays are: 'blk{layer}.q=q_rotated'; repeat for others."),
    ] = None,
    output: o.Output = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
    *,
    rule: RuleOptions,
    loading: LoadOptions,
) -> ExitCode:  # fmt: skip
    """Make a recording of another engine's queries and keys.

    DUMP holds q and k of any layers (v too, for --by value), after rotary positions, under any names, and the token ids
    as `tokens`. Layers are read one after the other. Every command reads the .attn file with -m, without the model. The
    rule is the model's with -m, else causal attention at scale 1/sqrt(d), or what the options say. With --check exit
    code 1 means that the weights are others than the model's.

    \b
    Examples:
      attn record --from dump.npz -o run.attn
      attn record --from dumps/ -m ./my-model --check -o run.attn
      attn record --from q_and_k.npz --heads 32 --kv-heads 8 -o run.attn
    """
    if from_ is None:
        raise InputError("nothing to record", "--from DUMP names it; a text's own run: attn inspect TEXT -o FILE.attn")
    if output is None:
        raise InputError("no file for the recording", "name it: -o FILE.attn")
    if check and model is None:
        raise InputError("--check needs the model that rows are held against", "name it with --model")
    if model is not None and not is_model(model):
        raise InputError(f"{excerpt(model, 60)} has no rules of layers", "name the model that the engine ran")
    if model is not None and rule.given:
        raise InputError(
            f"{listed(rule.given)} beside --model", "rules and heads are the model's: leave one of them out"
        )
    names, dump = NameMap(tuple(map_ or ())), open_dump(from_)
    ids = dump.tokens if tokens is None else _ids(tokens)
    if ids is None:
        raise InputError(f"{dump.label} holds no tokens", f"save the ids as {listed(TOKENS)}, or --tokens FILE.json")
    if not ids or min(ids) < 0:
        raise InputError(f"the tokens of {dump.label} are no ids: {excerpt(str(ids[:8]))}", "save whole numbers")

    def operands(counts: dict[int, HeadCounts]) -> DumpedOperands:
        return operands_of(dump, names, len(ids), counts)

    with open_view("attn" if output == "-" else None, output, force=force) as view:
        if not view.records_alone:
            raise InputError(f"a recording is no {view.format}", "name a file that ends in .attn: -o FILE.attn")
        if model is None:
            prompt = Prompt("", tuple(Token(at, str(number), number) for at, number in enumerate(ids)))
            found = operands(rule.counts(1 + max(operands({}).layers)))
            made = recording_of_dump(found, lambda layer: rule.rule(found, layer), prompt, dump.label)
            farthest = None
        else:
            source = loading.open(model, quiet=quiet, reads_text=False)
            prompt = _prompt(source, ids)
            of_model = rules_of(source, prompt, operands, check=check)
            made = recording_of_dump(operands(of_model.counts), of_model.rules.get, prompt, dump.label)
            farthest = of_model.farthest
        view.show_recorded(Report("record", dict(made.about), (prompt,)), made)
    count = sum(layer.h for layer in made.layers)
    told = [f"{counted(len(made.layers), 'layer')}, {counted(count, 'head')}, {counted(len(ids), 'token')}"]
    is_same = farthest is None or farthest.difference <= _allowed(dump)
    if farthest is not None:
        told.append(_compared(farthest, same=is_same))
    print_notes(told, quiet=quiet)
    return ExitCode.DONE if is_same else ExitCode.NEGATIVE


def _ids(file: str) -> tuple[int, ...]:
    """The whole numbers of a JSON list in a file."""
    try:
        ids = json.loads(Path(file).expanduser().read_text("utf-8"))
    except (OSError, ValueError) as error:
        told = reason(error) if isinstance(error, OSError) else "it is no JSON"
        raise InputError(f"can't read {excerpt(file)}: {told}", "a list of token ids: [1, 450, 6635]") from None
    if not isinstance(ids, list) or not all(type(number) is int for number in ids):
        raise InputError(f"{excerpt(file)} holds no list of token ids", "such as [1, 450, 6635]")
    return tuple(ids)


def _prompt(source: Source, ids: tuple[int, ...]) -> Prompt:
    """The tokens of these ids, with the model's own texts."""
    assert isinstance(source, Referring)
    labels = source.labels(ids)
    return Prompt(
        "", tuple(Token(at, label, number) for at, (label, number) in enumerate(zip(labels, ids, strict=True)))
    )


def _allowed(dump: Dump) -> float:
    """How far weights may be from the model's: further where an array is in 16 bits."""
    return max(_SAME.get(array.precision, _SAME_IN_16_BITS) for array in dump.arrays)


def _compared(farthest: FarthestRow, *, same: bool) -> str:
    """The finding of --check in words."""
    compared = f"{counted(farthest.rows, 'row')} of {counted(farthest.layers, 'layer')}"
    if same:
        return f"weights are the model's: {farthest.difference:.2g} apart at most, {compared}"
    where = f"layer {farthest.layer}, head {farthest.head}, row {farthest.row}"
    return f"weights are NOT the model's: {farthest.difference:.2g} apart in {where}"
