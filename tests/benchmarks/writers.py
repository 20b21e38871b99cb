"""The truth of `attn top --why writers`: sums, weights without a pair, the known circuit, chance, and cost."""

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from transformers import LlamaConfig, LlamaModel

from attn_cli.attention_call import AttentionCall
from attn_cli.model.intervention import HeadPlace
from attn_cli.model.score_writers import RowChoice, Writer, WrittenRow
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import ALL, Selection
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel, load
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions, find
from attn_cli.sources.huggingface.read.tokenize import labels
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.answers.kinds import head_kinds
from attn_cli.summaries.answers.logit_keys import logit_keys
from attn_cli.summaries.answers.writers import KeyPicks, writers_of
from attn_cli.summaries.parts.answer import read_parts
from attn_cli.summaries.parts.text_parts import parts_of
from tests.architectures.tiny import enlivened
from tests.benchmarks.generated_texts import lookup
from tests.benchmarks.timing import compared
from tests.real_models import SMOL
from tests.sources.huggingface.residual.test_score_writers import distances, distances_of_smollm
from tests.sources.huggingface.residual.writers_families import FAMILIES

TYPES_BAR, SMOLLM_BAR, WEIGHT_BAR = 1e-5, 1e-4, 1e-5
DRAWS, DRAWS_BAR = 10, 9
NETWORKS, NETWORKS_BAR = 20, 1
COST_BAR = 2.0
LOOKUPS = 16
_LEVEL = 0.01  # of chance, all writers of a network together
_ROWS, _CONTROLS, _PERMUTATIONS = 16, 6, 2000


def lines(repeats: int, *, quick: bool) -> Iterator[str]:
    """A line for each figure, with its bar."""
    torch.set_num_threads(1)  # threads that wait for each other only slow each other down
    found = {kind: distances(kind) for kind in FAMILIES}
    for kind, distance in found.items():
        yield f"{kind}: sum {distance.of_sum:.1e}, pairs {distance.of_pairs:.1e}, weights {distance.of_weights:.1e}"
    most = max(distance.of_sum for distance in found.values())
    yield f"sum of all pairs, {len(found)} types in float64: within {most:.1e}, bar {TYPES_BAR:.0e}"
    most = max(distance.of_weights for distance in found.values())
    yield f"weight without a pair, against the oracle's: within {most:.1e}, bar {WEIGHT_BAR:.0e}"
    path = SMOL
    source = ModelSource(load(find(str(path), OriginOptions(predicts=True))))
    smollm = distances_of_smollm(source)
    yield f"SmolLM2 in float32: sum within {smollm.of_sum:.1e}, bar {SMOLLM_BAR:.0e}; weights {smollm.of_weights:.1e}"
    yield from _lookups(source, 4 if quick else LOOKUPS)
    yield from _circuit(source, 3 if quick else DRAWS)
    yield from _chance(3 if quick else NETWORKS)
    yield from _cost(source, repeats)


class Circuit(NamedTuple):
    """Heads of SmolLM2 by their kinds on random tokens: the strongest induction heads, and all previous-token heads."""

    induction: list[HeadPlace]
    previous: set[HeadPlace]


def circuit_of(source: ModelSource, count: int) -> Circuit:
    """The `count` strongest induction heads, and the previous-token heads."""
    records = list(head_kinds(source).records())
    strongest = sorted((row for row in records if row["kind"] == "induction"), key=lambda row: -row["weight"])
    previous = {HeadPlace(row["layer"], row["head"]) for row in records if row["kind"] == "previous"}
    return Circuit([HeadPlace(row["layer"], row["head"]) for row in strongest[:count]], previous)


def writers_of_key(source: ModelSource, prompt: Prompt, head: HeadPlace, rows: Sequence[int]) -> Counter[Writer]:
    """What each writer adds to the key after the earlier place of a row's token, mean over rows of a repeated text."""
    sums: Counter[Writer] = Counter()
    for row in rows:
        key = induced(prompt, row)
        selection = Selection(pairs=((head.layer, head.head),))
        picks = KeyPicks(1, lambda _, key=key: [key])  # type: ignore[misc]
        (cell,) = writers_of(source, prompt, selection, lambda _, row=row: [row], picks).cells  # type: ignore[misc]
        for writer, contrast in cell.of_side("key"):
            sums[writer] += contrast / len(rows)  # type: ignore[assignment]
    return sums


def induced(prompt: Prompt, row: int) -> int:
    """The key after the earlier place of a row's token."""
    ids = [token.id for token in prompt.tokens]
    return ids.index(ids[row]) + 1


def strongest_head(sums: Counter[Writer]) -> HeadPlace:
    """The head that adds most."""
    writer = next(writer for writer, _ in sums.most_common() if writer.head is not None)
    assert writer.layer is not None and writer.head is not None
    return HeadPlace(writer.layer, writer.head)


def _circuit(source: ModelSource, draws: int) -> Iterator[str]:
    """Repeated random tokens: a draw counts if previous-token heads wrote the keys of most induction heads."""
    circuit, right = circuit_of(source, 5), 0
    for draw in range(draws):
        prompt = source.repeated(1000 + 10 * draw)[0]
        rows = [len(prompt.tokens) - back for back in (5, 15)]
        writers = [strongest_head(writers_of_key(source, prompt, head, rows)) for head in circuit.induction]
        known = sum(writer in circuit.previous for writer in writers)
        right += 2 * known > len(writers)
        named = "  ".join(f"{head.layer}.{head.head} from {writer.layer}.{writer.head}"
                          for head, writer in zip(circuit.induction, writers, strict=True))  # fmt: skip
        yield f"draw {draw}: {named} · {known} of {len(writers)} previous"
    share = len(circuit.previous) / len([*head_kinds(source).records()])
    yield f"keys written by previous-token heads in {right} of {draws} draws, bar {DRAWS_BAR} (of heads {share:.2f})"


def random_network(seed: int) -> ModelSource:
    """An untrained network of 3 layers with large scores, as a source of random tokens."""
    torch.manual_seed(seed)
    config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=199)  # fmt: skip
    model = enlivened(LlamaModel._from_config(config, attn_implementation="eager").float().eval())
    origin = Origin("random", "random", OriginOptions())
    return ModelSource(LoadedModel(model, None, {"model": "random", "type": "llama"}, origin))  # type: ignore[arg-type]


def chance_of(source: ModelSource, seed: int, head: HeadPlace) -> tuple[float, Writer]:
    """How often chance names a writer of the keys of repeated tokens as clearly as the clearest one is, and that one.

    In each row the key after the earlier place of its token stands beside keys near it: which of them it is, is
    permuted. The clearest of all writers is compared with the clearest of all, so that there may be many.
    """
    random = np.random.default_rng(seed)
    half = random.choice(np.arange(3, 199), 40, replace=False)
    prompt = Prompt("", labels(None, torch.from_numpy(np.concatenate([half, half])[None])))
    rows = random.choice(np.arange(50, 78), _ROWS, replace=False).tolist()
    groups = []
    for row in rows:
        near = [row - 39 + step for step in (*range(-6, 0), *range(1, 7)) if row - 39 + step > 0]
        groups.append((row, [row - 39, *random.choice(near, _CONTROLS, replace=False).tolist()]))

    def choose(call: AttentionCall) -> list[RowChoice]:
        return [RowChoice(0, row, tuple(keys), np.arange(80) <= row) for row, keys in groups]

    found = source.written_rows(prompt, Selection(pairs=((head.layer, head.head),)), choose)
    contrasts = np.stack([_of_keys(row) for row in found])  # [rows, keys, writers]
    contrasts -= contrasts.mean(axis=1, keepdims=True)
    contrasts /= np.sqrt(np.square(contrasts).mean(axis=(0, 1))) + 1e-12
    own = contrasts[:, 0].mean(axis=0)
    picks = random.integers(0, contrasts.shape[1], (_PERMUTATIONS, len(rows)))
    drawn = contrasts[np.arange(len(rows)), picks].mean(axis=1)  # [permutations, writers]
    clearest = float(own.max())
    return float((drawn.max(axis=1) >= clearest).mean()), found[0].writers[int(own.argmax())]


def _of_keys(row: WrittenRow) -> np.ndarray:
    """What each writer of each key adds `[keys, writers]`."""
    query = row.queries.sum(axis=0)
    return np.asarray(row.keys @ query)


def _lookups(source: ModelSource, count: int) -> Iterator[str]:
    """Lookups that the model answers: the fact that comes first by what heads write from it, and by weight."""
    by_logit = by_weight = tried = 0
    for seed in itertools.count():
        text, used, answer = lookup(seed)
        (prompt,) = source.read([text])
        found = logit_keys(source, prompt, ALL)
        if not answer.startswith(found.answer.strip() or " "):
            continue
        logits, parts = found.values.sum(axis=0), parts_of(prompt, "lines")
        shares = read_parts(source, prompt, parts, rows=[len(prompt.tokens) - 1]).read.parts
        facts = [part for part in shares if part.number and part.number < len(shares) - 2]  # no heading, no question
        by_logit += max(facts, key=lambda part: logits[list(part.part.tokens)].sum()).number == used
        by_weight += max(facts, key=lambda part: part.share).number == used
        tried += 1
        if tried == count:
            break
    yield f"lookups: the used line first by logit in {by_logit} of {count}, by weight in {by_weight}"


def _chance(networks: int) -> Iterator[str]:
    named = 0
    for seed in range(networks):
        p, writer = chance_of(random_network(seed), seed, HeadPlace(2, seed % 4))
        named += p < _LEVEL
        yield f"random network {seed}: the clearest is {writer.name}, p {p:.3f}"
    yield f"random networks with a writer above chance (p < {_LEVEL}): {named} of {networks}, bar {NETWORKS_BAR}"


def _cost(source: ModelSource, repeats: int) -> Iterator[str]:
    """Processor time of the writers of one cell against a plain pass."""
    for n in (14, 128, 512):
        prompt = Prompt("", tuple(Token(at, str(id), id) for at, id in enumerate(range(100, 100 + n))))
        model, arguments = source.loaded.model, source._without_cache(source.reader.arguments([prompt]))

        def plain(model: LlamaModel = model, arguments: dict[str, torch.Tensor] = arguments) -> None:  # type: ignore[assignment]
            with torch.no_grad():
                model(**arguments)

        for layer in (23, 29):
            head = Selection(pairs=((layer, 4),))
            ask = partial(writers_of, source, prompt, head, lambda queries: [len(queries) - 1], KeyPicks(1))
            seconds, ratios = compared(plain, {"writers": ask}, repeats, time.process_time)
            yield f"writers of a cell of layer {layer}, {n} tokens: {ratios['writers']:.2f} plain passes of " \
                  f"{seconds:.2f} s, bar {COST_BAR}"  # fmt: skip
