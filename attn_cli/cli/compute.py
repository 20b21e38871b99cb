"""Compute attention from scratch on your own matrices or words."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from attn_cli.call import Call
from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.compute import ProblemOptions
from attn_cli.cli.kit.options.output import OutputOptions
from attn_cli.cli.kit.shell.signature import option, takes_options
from attn_cli.cli.kit.stderr import print_notes
from attn_cli.errors import ExitCode, InputError
from attn_cli.selection import ALL
from attn_cli.sources.matrices import Matrices, open_matrices
from attn_cli.sources.matrices.expected import read_expected
from attn_cli.sources.memory import check_memory
from attn_cli.summaries.answers.check import OutputChecks
from attn_cli.summaries.answers.compute import computation
from attn_cli.summaries.answers.decode import WalkDecoding
from attn_cli.summaries.answers.steps import WalkSteps
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.reducers.masked import MaskedRows
from attn_cli.summaries.reducers.matrix import MatrixOf
from attn_cli.summaries.reducers.output import KeepOutput, PassOutput
from attn_cli.summaries.report import Report
from attn_cli.token_syntax import picked_tokens
from attn_cli.views.view import View
from attn_cli.views.writers.npy import OutputView

_CHECKED = ("output", "weights")
CallReducers = Callable[[Call], Sequence[Reducer]]
"""The reducers that look at one call."""


@dataclass(frozen=True)
class CheckOptions:
    """Options for checking the user's own results against the definition of attention."""

    expect: list[str] | None = option(
        None,
        "--expect FILE|weights=FILE",
        "Check this output, or these weights; exit code 1 if they are off. May be repeated.",
    )
    tol: float | None = option(None, "--tol NUMBER", "Allow errors up to this, relative to a number's size.", min=0.0)

    @property
    def files(self) -> dict[str, str]:
        """The files to check against, of "output" and "weights"."""
        named: dict[str, str] = {}
        for value in self.expect or ():
            name, _, file = value.partition("=")
            named |= {name: file} if file and name in _CHECKED else {"output": value}
        return named


@takes_options
def compute(
    problem: ProblemOptions,
    *,
    steps: bool = o.STEPS,
    token: str | None = o.TOKEN,
    decode: bool = option(False, "--decode", "Decode causally, row by row from a KV cache, and count what it saves."),
    check: CheckOptions,
    output: OutputOptions,
) -> ExitCode:
    """Compute attention from scratch on your own matrices or words.

    Scaled dot-product attention and its variants. Prints scores, weights and output; -o out.npz saves them.

    \b
    Examples:
      attn compute "the cat sat" --steps            every step in numbers
      attn compute --q q.npy --k k.npy --v v.npy --causal -o out.npz
      attn compute --q q.npy                        self-attention: k and v are q
      attn compute --x x.csv --projections w.npz --heads 2
      attn compute "the cat sat" -m toy:the-cat-sat --mask causal
      attn compute "he sat" --projections 7 --heads 4 --kv-heads 2
      attn compute --q a.npz:q --k a.npz:k --v a.npz:v --json | jq .matrices
      attn compute "the cat sat down" --decode      with a key/value cache
      attn compute --q q.npy --k k.npy --v v.npy --expect mine.npy   is it right?
      cat q.npy | attn compute --q - -o output.npy
    """
    choices = (("--steps", steps), ("--decode", decode), ("--expect", bool(check.files)))
    answers = [name for name, is_on in choices if is_on]
    if len(answers) > 1:
        raise InputError(f"{' and '.join(answers)} at once", "one at a time")
    if token is not None and not steps:
        raise InputError("--token needs --steps", "add it")
    if check.tol is not None and not bool(check.files):
        raise InputError("--tol needs --expect", "add --expect FILE")
    with output.view() as view:
        matrices = open_matrices(problem.options(decodes=decode, precise=bool(check.files)))
        if steps:
            walk = WalkSteps(_picked(token, matrices))
            report = _report("steps", matrices, lambda _: [walk])
        elif decode:
            decoding = WalkDecoding()
            report = _report("decode", matrices, also=decoding.add)
            report = replace(report, answer=decoding.answer())
        elif bool(check.files):
            report = _check_report(matrices, check)
        elif isinstance(view, OutputView):
            reducers = _to_file(matrices, view)
            report = _with_answer(_report("compute", matrices, reducers), matrices)
        else:
            report = _report("compute", matrices, _whole(matrices, view))
            report = _with_answer(report, matrices)
        print_notes(report.warnings, quiet=output.quiet)
        view.show(report)
    verdicts = report.answer["verdicts"] if check.files and report.answer is not None else ()
    return ExitCode.DONE if all(verdict["right"] for verdict in verdicts) else ExitCode.NEGATIVE


def _picked(token: str | None, matrices: Matrices) -> list[int] | None:
    prompt = matrices.labelled
    return None if token is None else picked_tokens(token, prompt.tokens, prompt.text)[0]


def _check_report(matrices: Matrices, check: CheckOptions) -> Report:
    read = {name: read_expected(file, name, matrices) for name, file in check.files.items()}
    arrays = {name: (read[name].values, read[name].precision) for name in _CHECKED if name in read}
    checks = OutputChecks(arrays, check.tol, joined=matrices.joined)
    matrices = replace(matrices, notes=matrices.notes + tuple(note for file in read.values() for note in file.notes))
    report = _report("check", matrices, also=checks.add)
    return replace(report, answer=checks.answer())


def _report(
    command: str,
    matrices: Matrices,
    reducers: CallReducers = lambda _: (),
    also: Callable[[Call], None] = lambda _: None,
) -> Report:
    summaries: list[Summary] = []

    def visit(call: Call) -> None:
        summaries.append(reduce(call, *reducers(call)))
        also(call)

    matrices.each(ALL, visit)
    return Report(
        command, matrices.about, (matrices.prompt,), tuple(summaries), matrices.notes,
        batch=matrices.lead,
    )  # fmt: skip


def _with_answer(report: Report, matrices: Matrices) -> Report:
    operands = {"q": matrices.q, "k": matrices.k, "v": matrices.v} if matrices.from_embeddings else {}
    answer = computation(
        report.summaries, matrices.lead, operands, head_axis=matrices.head_axis, joined=matrices.joined
    )
    return replace(report, answer=answer)


def _whole(matrices: Matrices, view: View) -> CallReducers:
    largest = view.largest
    if largest is None:
        count, (n, m) = 2 * math.prod(matrices.q.shape[:-2]), (matrices.q.shape[-2], matrices.k.shape[-2])
        subject = f"{count:,} matrices of {n:,} x {m:,}"
        check_memory(count * n * m * matrices.q.itemsize, subject, "-f npy keeps the output alone, a screen pools")

    def of_call(call: Call) -> Sequence[Reducer]:
        masked = [MaskedRows()] if matrices.rules.softmax else []
        if largest is None:
            return [MatrixOf(kinds=("weights", "scores")), _output(matrices), *masked]
        pooled = (MatrixOf(largest, kinds=("scores" if scores else "weights",)) for scores in (True, False))
        return [*pooled, _output(matrices), *masked]

    return of_call


def _to_file(matrices: Matrices, view: OutputView) -> CallReducers:
    file = None
    h = matrices.q.shape[-3]
    if not matrices.joined and matrices.value_up is None:
        size = (matrices.q.shape[-2], matrices.v.shape[-1])
        shape = (*matrices.lead, *((h,) if matrices.head_axis else ()), *size)
        file = view.rows(shape, max(matrices.q.itemsize, 4))

    def of_call(call: Call) -> Sequence[Reducer]:
        if file is None:
            return [_output(matrices)]
        before = call.place.text * h  # heads of earlier batch entries
        return [PassOutput(lambda head, first, values: file.write(before + head, first, values))]

    return of_call


def _output(matrices: Matrices) -> KeepOutput:
    return KeepOutput(joined=matrices.joined, projection=matrices.projection, value_up=matrices.value_up)
