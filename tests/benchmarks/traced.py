"""How truly `attn parts` names where an answer came from, with SmolLM2-135M, against the text without each part.

    python -m tests.benchmarks.traced FILE --seconds 200

continues what FILE holds, a line for each step that is done, for about so many seconds of processor time. The longest
prompt takes some minutes a step.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch

from attn_cli.prompt import Prompt
from attn_cli.sources.huggingface.capture.registry import all_named
from attn_cli.sources.huggingface.intervene.runner import Runner
from attn_cli.sources.huggingface.load.checkpoint import load
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.parts.answer import read_parts
from attn_cli.summaries.parts.text_parts import TextPart, message_spans, named_parts, parts_of
from tests.benchmarks.left_out import bits_without
from tests.benchmarks.traced_texts import FACTS_TOLD, LONGEST, Case, cases, claims, traced_text
from tests.real_models import SMOL

LOOKUPS_BAR, CLAIMS_BAR, COST_BAR = 38, 0.9, 4.0
CLAIMS = range(30, 60)  # seeds, others than those that the share of a mark was chosen by
_LONG = 2000  # tokens from which processor time is compared with a plain pass
_USED = 1.0  # bits that an answer loses without a part that it used

Step = Callable[[ModelSource, dict[str, Any]], dict[str, Any]]
"""Takes a model and the steps that are done, and gives what it found."""


def lookup_of(source: ModelSource, case: Case, answer: str | None = None) -> tuple[Prompt, tuple[TextPart, ...]]:
    """A case with an answer, or what the model writes after it, and its parts."""
    assert source.loaded.tokenizer is not None
    template = source.loaded.tokenizer.apply_chat_template

    def chat(messages: Any) -> str:
        return str(template(messages, tokenize=False, add_generation_prompt=True))

    text, cut, messages = traced_text(case, chat)
    (prompt,) = source.read([text])
    prompt = source.written(prompt, 32) if answer is None else source.answered(prompt, answer)
    within = None if messages is None else message_spans(prompt.text, messages)
    return prompt, named_parts(prompt, within or (), "template") if cut == "roles" else parts_of(prompt, cut, within)


def written(source: ModelSource, case: Case) -> dict[str, Any]:
    """What the model writes after a prompt, and how long that takes."""
    begin = time.process_time()
    prompt, _ = lookup_of(source, case)
    assert prompt.generated is not None
    return {"answer": prompt.generated.text, "seconds": time.process_time() - begin}


def read(source: ModelSource, case: Case, answer: dict[str, Any] | None = None) -> dict[str, Any]:
    """The parts of a case by the product: which comes first, what it loses, how many runs and how long, written or not.

    answer  what was written before, and how long that took; None to write it now
    """
    begin = time.process_time()
    prompt, parts = lookup_of(source, case, None if answer is None else answer["answer"])
    with counted_runs() as runs:
        reading = read_parts(source, prompt, parts)
    seconds = time.process_time() - begin
    first = reading.order[0].number
    return {
        "tokens": len(prompt.tokens),
        "parts": len(parts),
        "first": first,
        "bits": reading.effects[first],
        "answer": "" if prompt.generated is None else prompt.generated.text,
        "runs": sum(runs),
        "seconds": seconds + (0.0 if answer is None else answer["seconds"]),
    }


def truth(
    source: ModelSource, case: Case, answer: str, only: int | None = None, kept: Path | None = None
) -> dict[str, Any]:
    """The part of a case without which the answer loses most, and what each of its parts is worth.

    only  the part that is tried, in the order of the text
    """
    prompt, parts = lookup_of(source, case, answer)
    reading = [at for at, part in enumerate(parts) if part.kind == "given"]
    told = reading[:-1]  # the last one is the question, without which nothing is asked
    told = told if only is None else told[only : only + 1]
    lost = bits_without(source, prompt, [parts[at] for at in told], kept)
    bits = {str(at): sum(of_part) for at, of_part in zip(told, lost, strict=True)}
    return {"used": int(min(bits, key=lambda at: bits[at])), "bits": bits}


def joined(done: dict[str, Any], case: Case) -> dict[str, Any] | None:
    """The truth of a case, of all its parts; None where some weren't tried."""
    if case.tokens < LONGEST:
        found: dict[str, Any] | None = done.get(f"truth {case.name}")
        return found
    of_parts = [done.get(name) for name, _ in _truths(case, None)]
    if None in of_parts:
        return None
    bits = {at: value for row in of_parts if row is not None for at, value in row["bits"].items()}
    return {"used": int(min(bits, key=lambda at: bits[at])), "bits": bits}


def cited(source: ModelSource, seed: int) -> dict[str, Any]:
    """The marks of an answer of two sentences, and the documents that they came from."""
    documents, question, answer, sources = claims(seed)
    prompt = source.answered(source.read(["\n\n".join([*documents, f"{question}\nAnswer:"])])[0], answer)
    parts = parts_of(prompt, "paragraphs")
    with counted_runs() as runs:
        reading = read_parts(source, prompt, parts)
    marks = [list(citation.either) or [part for part, _ in citation.needed] for citation in reading.citations]
    return {"marks": marks, "sources": sources, "parts": len(parts), "runs": sum(runs)}


@contextmanager
def counted_runs() -> Iterator[list[int]]:
    """Context manager: how many variants each batch of runs with interventions holds."""
    counts: list[int] = []
    before = Runner.with_interventions

    def counting(self: Runner, batch: Any, *arguments: Any) -> Any:
        counts.append(batch.size)
        return before(self, batch, *arguments)

    Runner.with_interventions = counting  # type: ignore[method-assign]
    try:
        yield counts
    finally:
        Runner.with_interventions = before  # type: ignore[method-assign]


def plain(source: ModelSource, case: Case, answer: str) -> dict[str, Any]:
    """Processor time of a plain pass, by torch's own attention, that computes the last row's words alone."""
    prompt, _ = lookup_of(source, case, answer)
    model, arguments = source.loaded.generating, source.reader.arguments([prompt])
    assert model is not None
    begin = time.process_time()
    with torch.no_grad(), all_named(model, "sdpa"):
        model(**arguments, use_cache=False, logits_to_keep=1)
    return {"plain": time.process_time() - begin}


def steps(kept: Path | None = None) -> dict[str, Step]:
    """All steps by their names, in the order in which they are done; each takes less than some minutes.

    kept  a file for keys and values of the longest prompt
    """
    found: dict[str, Step] = {}
    for seed in CLAIMS:
        found[f"cite {seed}"] = lambda source, _, seed=seed: cited(source, seed)  # type: ignore[misc]
    for case in cases():
        if case.tokens == LONGEST:
            found[f"write {case.name}"] = lambda source, _, case=case: written(source, case)  # type: ignore[misc]
        found[f"read {case.name}"] = lambda source, done, case=case: read(  # type: ignore[misc]
            source, case, done.get(f"write {case.name}")
        )
        if case.tokens >= _LONG:
            found[f"plain {case.name}"] = lambda source, done, case=case: plain(  # type: ignore[misc]
                source, case, done[f"read {case.name}"]["answer"]
            )
        found |= _truths(case, kept)
    return found


def _truths(case: Case, kept: Path | None) -> Iterator[tuple[str, Step]]:
    """The steps of a case's truth: one, or of the longest one for each fact."""
    for only in range(FACTS_TOLD) if case.tokens == LONGEST else [None]:
        name = f"truth {case.name}" + ("" if only is None else f" {only}")
        yield (
            name,
            lambda source, done, only=only: truth(  # type: ignore[misc]
                source, case, done[f"read {case.name}"]["answer"], only, None if only is None else kept
            ),
        )


def lines(file: Path | None = None, seconds: float = float("inf"), threads: int = 1) -> Iterator[str]:
    """A line for each step that is done now, then the figures of all that are done."""
    torch.set_num_threads(threads)
    done: dict[str, Any] = {}
    if file is not None and file.exists():
        done = {row.pop("step"): row for row in map(json.loads, file.read_text().splitlines())}
    source: ModelSource | None = None
    for name, step in steps(None if file is None else file.with_suffix(".cache")).items():
        if name in done or time.process_time() > seconds:
            continue
        if source is None:
            path = SMOL
            source = ModelSource(load(find(str(path), OriginOptions(predicts=True))))
        row = json.dumps(step(source, done))
        done[name] = json.loads(row)
        if file is not None:
            with file.open("a") as kept:
                kept.write(json.dumps({"step": name} | done[name]) + "\n")
        yield f"{name}: {row}"
    yield from summary(done)


def summary(done: dict[str, Any]) -> Iterator[str]:
    """The figures with their bars, and every prompt in which another part came first."""
    right = tried = unused = longest = 0
    distances: list[float] = []
    for case in cases():
        found, true = done.get(f"read {case.name}"), joined(done, case)
        if found is None or true is None:
            continue
        bits = true["bits"][str(true["used"])]
        longest = max(longest, found["tokens"])
        if bits > -_USED:
            unused += 1
            yield f"{case.name}: {found['answer']!r} needs no part, first {found['first']} ({found['bits']:+.1f} bits)"
            continue
        tried += 1
        right += found["first"] == true["used"]
        distances.append(abs(found["bits"] - true["bits"].get(str(found["first"]), 0.0)))
        if found["first"] != true["used"]:
            own = true["bits"].get(str(found["first"]), 0.0)
            yield (f"{case.name}: {found['answer']!r}, first {found['first']} ({found['bits']:+.1f} bits, left out "
                   f"{own:+.1f}), used {true['used']} ({bits:+.1f})")  # fmt: skip
    if tried:
        yield (f"lookups: the used part first in {right} of {tried} to {longest:,} tokens, bar {LOOKUPS_BAR} of 40; "
               f"{unused} need no part; bits and without its text: median {median(distances):.1f} apart")  # fmt: skip
    yield from _of_claims(done)
    rows = {name: row for name, row in done.items() if "runs" in row}
    more = [row["runs"] - row["parts"] for row in rows.values()]
    if more:
        over = sum(x > 2 for x in more)
        yield f"runs beyond one a part: at most {max(more)}, bar 2; more in {over} of {len(more)}"
    for case in cases():
        row, of_pass = done.get(f"read {case.name}"), done.get(f"plain {case.name}")
        if row and of_pass:
            passes = row["seconds"] / of_pass["plain"]
            yield (f"{case.name}, {row['tokens']:,} tokens, {row['parts']} parts: {passes:.2f} plain passes of "
                   f"{of_pass['plain']:.1f} s, bar {COST_BAR}")  # fmt: skip


def _of_claims(done: dict[str, Any]) -> Iterator[str]:
    marked = true = both = answers = 0
    for seed in CLAIMS:
        row = done.get(f"cite {seed}")
        if row is None:
            continue
        answers += 1
        for number, source in enumerate(row["sources"]):
            marks = row["marks"][number] if number < len(row["marks"]) else []
            marked, true, both = marked + len(marks), true + 1, both + (source in marks)
        if [[source] for source in row["sources"]] != row["marks"]:
            yield f"cite {seed}: {row['marks']}, from {row['sources']}"
    if marked:
        yield (f"marks of {answers} answers: precision {both / marked:.2f}, recall {both / true:.2f}, "
               f"bar {CLAIMS_BAR} of {len(CLAIMS)}")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.traced", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--threads", type=int, default=1, help="of all steps, plain passes among them")
    asked = parser.parse_args()
    for line in lines(asked.file, asked.seconds, asked.threads):
        print(line, flush=True)
