"""Make a recording of another engine's queries and keys."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.model import LoadOptions
from attn_cli.cli.kit.options.token_ids import token_ids
from attn_cli.cli.kit.shell.signature import takes_options
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.dump import StatedRule
from attn_cli.errors import ExitCode, InputError
from attn_cli.kernel.definition.masks import Causal, Open
from attn_cli.kernel.definition.rule import Rule
from attn_cli.model.source import Referring, Source
from attn_cli.prompt import Prompt, Token
from attn_cli.sources import is_model
from attn_cli.sources.dumps import TOKENS, open_dump
from attn_cli.summaries.answers.dump_check import FarthestRow
from attn_cli.summaries.answers.recorded_dump import recording_of_dump, rules_of
from attn_cli.summaries.bisect.names import NameMap
from attn_cli.summaries.bisect.operands import DumpedOperands, HeadCounts, operands_of
from attn_cli.summaries.report import Report
from attn_cli.text import counted, excerpt, listed
from attn_cli.views import open_view


@dataclass(frozen=True)
class RuleOptions:
    """Options for what turns q and k into weights where no model says it: heads, scale, softcap and mask."""

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
        """The flags of those of these options whose value is not the default."""
        every = {"--heads": self.heads, "--kv-heads": self.kv_heads, "--scale": self.scale, "--softcap": self.softcap}
        return tuple(name for name, value in every.items() if value is not None) + (
            ("--mask",) if self.mask != "causal" else ()
        )

    def counts(self, layers: int, stated: StatedRule | None) -> dict[int, HeadCounts]:
        """The numbers of heads and key heads of each of `layers` layers: of --heads and --kv-heads, else of `stated`.

        stated  what another engine's files say of its attention, None for nothing; the result is {} if neither says any
        """
        if self.heads is None and stated is None:
            return {}
        heads, kv_heads = self.heads, self.kv_heads or self.heads
        if heads is None and stated is not None:
            heads, kv_heads = stated.heads, stated.kv_heads
        return dict.fromkeys(range(layers), HeadCounts(heads, kv_heads))

    def rule(self, operands: DumpedOperands, layer: int, stated: StatedRule | None) -> Rule:
        """How scores of one layer are made, as the options say: scale, softcap and mask.

        Without --scale the scale is that of `stated`, else 1 / sqrt(d).

        operands  another engine's queries and keys, d wide
        stated    what that engine's files say of its attention; None for nothing
        """
        scale = self.scale if self.scale is not None or stated is None else stated.scale
        scale = operands.read("q", layer).shape[2] ** -0.5 if scale is None else scale
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
    tokens: o.Tokens = None,
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
    as `tokens`; or it is a folder of vLLM-Hook, or a capture of interp-engine. Layers are read one after the other. All
    commands read the .attn file with -m, without the model. The rule is the model's with -m, else causal attention at
    scale 1/sqrt(d), or what the options say. With --check exit code 1 means that the weights differ from the model's
    by more than the dump's precision explains.

    \b
    Examples:
      attn record --from dump.npz -o run.attn
      attn record --from dumps/ -m ./my-model --check -o run.attn
      attn record --from q_and_k.npz --heads 32 --kv-heads 8 -o run.attn
      attn record --from vllm-hook/ --tokens ids.json -o run.attn
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
    names, ids = NameMap(tuple(map_ or ())), None if tokens is None else token_ids(tokens)
    dump = open_dump(from_, None if ids is None else len(ids))
    ids = dump.tokens if ids is None else ids
    if ids is None:
        raise InputError(f"{dump.label} holds no tokens", f"save the ids as {listed(TOKENS)}, or --tokens FILE.json")
    if not ids or min(ids) < 0:  # of a dump
        raise InputError(f"the tokens of {dump.label} are no ids: {excerpt(str(ids[:8]))}", "save whole numbers")

    def operands(counts: dict[int, HeadCounts]) -> DumpedOperands:
        return operands_of(dump, names, len(ids), counts)

    with open_view("attn" if output == "-" else None, output, force=force) as view:
        if not view.records_alone:
            raise InputError(f"a recording is no {view.format}", "name a file that ends in .attn: -o FILE.attn")
        if model is None:
            prompt = Prompt("", tuple(Token(at, str(number), number) for at, number in enumerate(ids)))
            found = operands(rule.counts(1 + max(operands({}).layers), dump.stated))
            made = recording_of_dump(found, lambda layer: rule.rule(found, layer, dump.stated), prompt, dump.label)
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
    if farthest is not None:
        told.append(_compared(farthest))
    print_notes(told, quiet=quiet)
    return ExitCode.NEGATIVE if farthest is not None and farthest.is_wrong else ExitCode.DONE


def _prompt(source: Source, ids: tuple[int, ...]) -> Prompt:
    """The tokens of these ids, with the model's own texts."""
    assert isinstance(source, Referring)
    labels = source.labels(ids)
    return Prompt(
        "", tuple(Token(at, label, number) for at, (label, number) in enumerate(zip(labels, ids, strict=True)))
    )


def _compared(farthest: FarthestRow) -> str:
    """The finding of --check in words."""
    compared = f"{counted(farthest.rows, 'row')} of {counted(farthest.layers, 'layer')}"
    if not farthest.is_wrong:
        return f"weights are the model's: {farthest.difference:.2g} apart at most, {compared}"
    where = f"layer {farthest.layer}, head {farthest.head}, row {farthest.row}"
    times = f"{farthest.over:.3g} times" if farthest.over < 1e6 else "far more than"
    explained = f"{times} what {farthest.precision} explains"
    return f"weights are NOT the model's: {farthest.difference:.2g} apart in {where}, {explained}"
