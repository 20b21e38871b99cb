"""Compute attention from scratch on your own matrices or words."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import OutputOptions
from attn_cli.cli.kit.run.texts import whole_texts
from attn_cli.cli.kit.shell import completion
from attn_cli.cli.kit.shell.signature import argument, option, takes_options
from attn_cli.cli.kit.stderr import print_notes
from attn_cli.errors import ExitCode, InputError
from attn_cli.kernel.definition.rule import Rule
from attn_cli.selection import ALL
from attn_cli.sources.matrices import Matrices, open_matrices
from attn_cli.sources.matrices.expected import read_expected
from attn_cli.sources.matrices.options import MatrixOptions, latent_options, position_options, projection_options
from attn_cli.sources.matrices.rules import MASK_HELP, MASKS
from attn_cli.sources.memory import check_memory
from attn_cli.summaries.answer import Answer
from attn_cli.summaries.answers.check import OutputChecks
from attn_cli.summaries.answers.compute import computation
from attn_cli.summaries.answers.decode import WalkDecoding
from attn_cli.summaries.answers.steps import WalkSteps
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.reducers.matrix import MatrixOf
from attn_cli.summaries.reducers.output import KeepOutput
from attn_cli.summaries.report import Report
from attn_cli.token_syntax import picked_tokens
from attn_cli.views.view import View

_FILE = 'npy, npz, csv, json, safetensors, file.npz:name, - for stdin, or numbers: "1 0; 0 1".'
_rule = partial(option, rich_help_panel="Rule")
_CHECKED = ("output", "weights")
CallReducers = Callable[[Call], Sequence[Reducer]]


@dataclass(frozen=True)
class ProblemOptions:
    """Options for the operands of attention and its rule: matrices or words, projections, heads, positions, masks."""

    texts: list[str] | None = argument("TEXT", "Attend between these words, in place of --x: each text by itself.")
    model: str = o.TABLE
    q: str | None = option("--q FILE", f"Read queries [n, d], with batch and head axes or without. {_FILE}")
    k: str | None = option("--k FILE", "Read keys [m, d] (default: those in the file of q, or q).")
    v: str | None = option("--v FILE", "Read values [m, e] (default: those in the file of q, or k).")
    scores: str | None = option("--scores FILE", 'Start from scores q kᵀ [n, m], such as "2 4 6". Values are --v.')
    x: str | None = option("--x FILE", "Read embeddings [n, width] and project them.")
    context: str | None = option(
        "--context FILE|TEXT",
        "Read embeddings [m, width] of keys and values, or beside TEXT their words: cross-attention.",
    )
    projections: list[str] | None = option(
        "--projections SEED|NAME=FILE|FILE",
        "Draw W_Q, W_K, W_V, W_O from a seed, or read them: wq=FILE, or an .npz that holds wq, wk, wv, wo, "
        "of latent keys wdkv, wuk, wuv (wkr, norm). Repeatable.",
    )
    heads: int | None = option("--heads N", "Split the last axis into N heads.", min=1)
    kv_heads: int | None = option("--kv-heads G", "Share G key/value heads among groups of query heads.", min=1)
    labels: str | None = option("--labels WORDS", 'Label keys (and queries, if n = m): "The cat sat" or The,cat,sat.')
    latent: str | None = option(
        "--latent R|absorbed|R:absorbed",
        "Draw latent keys (MLA) of rank R. absorbed: with the up-projections in queries and outputs.",
    )
    positions: str | None = _rule(
        "--positions HOW",
        "Add positions: sinusoidal (to x), rotary or rotary-interleaved (RoPE of q and k, rotary:500000 sets the "
        "base), alibi (to scores, alibi:0.5,0.25 gives a slope per head).",
    )
    mask: list[str] | None = option(
        "--mask MASK",
        MASK_HELP,
        autocompletion=completion.one_of(lambda: [entry.example or entry.name for entry in MASKS]),
    )
    causal: bool = _rule("--causal", "Short for --mask causal.")
    scale: str | None = _rule("--scale NUMBER", "Multiply q kᵀ by this, or off (default: 1 / sqrt(d)).")
    softcap: float | None = _rule("--softcap C", "Cap scores: C tanh(score / C).")
    sink: str | None = _rule("--sink SCORES", "Add a learned sink score per head to every row's softmax.")
    weights: str | None = _rule(
        "--weights HOW|FILE", 'Skip the softmax: scores, uniform, sum (1 each), or weights such as ".2 .4 .3 .1".'
    )

    def alone(self) -> "list[ProblemOptions]":
        """The problem of each text by itself, all texts read; of matrices itself."""
        if not self.texts:
            return [self]
        beside = [] if self.context is None else [self.context]
        read = whole_texts([*self.texts, *beside])
        context = read.pop() if beside else None
        return [replace(self, texts=[text], context=context) for text in read]

    def options(self, *, decodes: bool = False, precise: bool = False) -> MatrixOptions:
        """The options as one record, from which a source of matrices, or of words as vectors, is opened."""
        values = asdict(self)
        (text,) = values.pop("texts") or (None,)
        values |= {"text": text} if text is None else {"text": text, "context": None, "context_text": self.context}
        values |= projection_options(self.projections or ()) | position_options(self.positions)
        masks = (*(values.pop("mask") or ()), *["causal"] * self.causal)
        return MatrixOptions(
            **values | latent_options(self.latent) | {"masks": masks, "causal": decodes, "precise": precise}
        )


@takes_options
def compute(
    problem: ProblemOptions,
    *,
    steps: bool = o.STEPS,
    token: str | None = o.TOKEN,
    digits: int | None = option("--digits N", "Print --steps with 2 to 6 decimals (default: 3).", min=2, max=6),
    decode: bool = option("--decode", "Decode causally, row by row from a KV cache, and count what it saves."),
    expect: list[str] | None = option(
        "--expect FILE|weights=FILE",
        "Check this output, or these weights, beside --steps too. Exit code 1 if they are off. May be repeated.",
    ),
    tol: float | None = option("--tol NUMBER", "Allow errors up to this, relative to a number's size.", min=0.0),
    output: OutputOptions,
) -> ExitCode:
    """Compute attention from scratch on your own matrices or words.

    Scaled dot-product attention and its variants. Prints weights, output and scores. -o out.npz saves them.

    \b
    Examples:
      attn compute "the cat sat" -m toy:the-cat-sat --steps
      attn compute --q q.npy --k k.npy --v v.npy --causal -o out.npz
      attn compute --q "1 0; 0 1" --k "1 1; 0 1" --v "1 2; 3 4"
      attn compute --q problem.npz --json | jq .matrices    q, k and v by name
      attn compute "the cat sat down" --decode      with a key/value cache
      attn compute --q q.npy --k k.npy --v v.npy --expect mine.npy   is it right?
      cat q.npy | attn compute --q - -o output.npy
    """
    choices = {"--steps": steps, "--decode": decode, "--expect": bool(expect)}
    answers = [name for name, is_on in choices.items() if is_on]
    if len(answers) > 1 and answers != ["--steps", "--expect"]:
        raise InputError(f"{' and '.join(answers)} at once", "one at a time")
    given = (("--token", token, "--steps"), ("--digits", digits, "--steps"), ("--tol", tol, "--expect"))
    for name, value, needs in given:
        if value is not None and not choices[needs]:
            raise InputError(f"{name} needs {needs}", "add it")
    verdicts: list[Mapping[str, bool]] = []
    with output.view() as view:
        problems = problem.alone()
        for number, each in enumerate(problems):
            matrices = open_matrices(each.options(decodes=decode, precise=bool(expect)))
            if expect:
                report, checked = _check_report(matrices, expect, tol)
                verdicts += checked["verdicts"]
            if steps:
                report = _steps_report(matrices, token, digits or 3, checked.findings if expect else ())
            elif decode:
                decoding = WalkDecoding()
                report = _report("decode", matrices, also=decoding.add)
                report = replace(report, answer=decoding.answer())
            elif not expect:
                alone, shape = output.written_format.name == "npy", (matrices.q.shape[-2], matrices.k.shape[-2])
                pools = view.largest is not None and any(np.greater(shape, view.largest))
                products = not (alone or pools or "scores" in matrices.made.stand_ins)
                reducers = _whole(matrices, None if alone else view)
                report = _report("compute", matrices, reducers, products=products)
                operands = {"q": matrices.q, "k": matrices.k, "v": matrices.v} if matrices.from_embeddings else {}
                answer = computation(
                    report.summaries, matrices.lead, operands, head_axis=matrices.head_axis, joined=matrices.joined
                )
                report = replace(report, answer=answer)
            print_notes(report.warnings, quiet=output.quiet)
            view.show(report if len(problems) < 2 else replace(report, index=number))
    return ExitCode.DONE if all(verdict["right"] for verdict in verdicts) else ExitCode.NEGATIVE


def _steps_report(of: Matrices, token: str | None, digits: int, notes: tuple[str, ...]) -> Report:
    walk = WalkSteps(None if token is None else picked_tokens(token, of.labelled.tokens, of.labelled.text)[0])
    report = _report("steps", of, lambda call: [walk])
    return replace(report, digits=digits, warnings=(*report.warnings, *notes))


def _check_report(matrices: Matrices, expect: Sequence[str], tol: float | None) -> tuple[Report, Answer]:
    files: dict[str, str] = {}
    for value in expect:
        name, _, file = value.partition("=")
        files |= {name: file} if file and name in _CHECKED else {"output": value}
    read = {name: read_expected(file, name, matrices) for name, file in files.items()}
    arrays = {name: (read[name].values, read[name].precision) for name in _CHECKED if name in read}
    checks = OutputChecks(arrays, tol, joined=matrices.joined)
    matrices = replace(matrices, notes=matrices.notes + tuple(note for file in read.values() for note in file.notes))
    report = _report("check", matrices, also=checks.add)
    answer = checks.answer()
    return replace(report, answer=answer), answer


def _report(
    command: str,
    matrices: Matrices,
    reducers: CallReducers = lambda call: (),
    also: Callable[[Call], None] = lambda call: None,
    *,
    products: bool = False,
) -> Report:
    summaries: list[Summary] = []

    def visit(call: Call) -> None:
        summary = reduce(call, *reducers(call))
        if products and isinstance(call, AttentionCall):  # q · k itself, before the rule
            first = reduce(replace(call, rule=Rule(1.0)), MatrixOf(kinds=("scores",))).parts
            summary = replace(summary, parts=(*first, *summary.parts))
        summaries.append(summary)
        also(call)

    matrices.each(ALL, visit)
    return Report(command, matrices.about, (matrices.prompt,), (*summaries,), matrices.notes, batch=matrices.lead)


def _whole(matrices: Matrices, view: View | None) -> CallReducers:
    if view is None:  # the output alone
        return lambda call: [_output(matrices)]
    largest = view.largest
    if largest is None:
        count, (n, m) = 3 * math.prod(matrices.q.shape[:-2]), (matrices.q.shape[-2], matrices.k.shape[-2])
        subject = f"{count:,} matrices of {n:,} x {m:,}"
        check_memory(count * n * m * matrices.q.itemsize, subject, "-f npy keeps the output alone, a screen pools")

    def of_call(call: Call) -> Sequence[Reducer]:
        kinds = ("weights",) if "scores" in matrices.made.stand_ins else ("scores", "weights")
        output = () if "output" in matrices.made.stand_ins else (_output(matrices),)
        if largest is None:
            return [MatrixOf(kinds=kinds), *output]
        return [*(MatrixOf(largest, kinds=(kind,)) for kind in kinds), *output]

    return of_call


def _output(matrices: Matrices) -> KeepOutput:
    return KeepOutput(joined=matrices.joined, projection=matrices.made.projection, value_up=matrices.made.value_up)
