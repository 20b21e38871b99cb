"""Kinds of heads of real models and of one that learned nothing; heads stand out by what they give weight to."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaModel

from attn_cli import head_kinds
from attn_cli.call import Call
from attn_cli.explore.answer import opening
from attn_cli.explore.scene import Scene
from attn_cli.prompt import Token
from attn_cli.selection import ALL, Selection
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.answer import Answer
from attn_cli.summaries.answers.kinds import recorded_kinds
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds, HeadKindsReducer, KindNumbers
from attn_cli.summaries.reducers.kinds.targets import CONTENT, DELIMITER, FIRST, KINDS, MARKS, PLACE, UNIFORM
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from attn_cli.summaries.reducers.record import record
from attn_cli.summaries.report import Report
from attn_cli.summaries.standing_out import FOCUSED, StandOut, standing_out
from attn_cli.summaries.text_sinks import text_sinks
from attn_cli.summaries.told.overview import told_head, with_word_reads
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.webpage.contents import Contents
from tests.architectures.tiny import tiny_model
from tests.summaries.reducers.kinds.oracle import numbers, targets

NAMES = [kind.name for kind in KINDS if kind is not UNIFORM]


@pytest.fixture(scope="module")
def smollm_kinds(smollm: LoadedModel) -> Answer:
    return head_kinds(model=ModelSource(smollm)).answer


@pytest.fixture(scope="module")
def minilm_kinds(minilm: LoadedModel) -> Answer:
    return head_kinds(model=ModelSource(minilm)).answer


def named(kinds: Answer, kind: str) -> dict[str, float]:
    heads = {f"{row['layer']}.{row['head']}": row["weight"] for row in kinds.records() if row["kind"] == kind}
    return dict(sorted(heads.items(), key=lambda head: -head[1]))


# Measured on another draw of tokens, by a dense script that shares no code with this package.
@pytest.mark.parametrize(
    ("kind", "heads"),
    [
        ("induction", {"18.6": 0.910, "17.3": 0.818, "17.4": 0.797, "17.5": 0.649, "18.7": 0.638, "23.2": 0.566}),
        ("duplicate", {"8.0": 0.765, "14.3": 0.741}),
        ("previous", {"16.0": 0.896, "11.1": 0.848}),
    ],
)
def test_known_heads_of_smollm(smollm_kinds: Answer, kind: str, heads: dict[str, float]) -> None:
    found = named(smollm_kinds, kind)
    assert set(list(found)[: len(heads)]) == set(heads)
    for head, weight in heads.items():
        assert found[head] == pytest.approx(weight, abs=0.12 if kind == "duplicate" else 0.06)


def test_known_heads_of_minilm_which_has_no_induction(minilm_kinds: Answer) -> None:
    assert named(minilm_kinds, "previous")["0.2"] == pytest.approx(0.993, abs=0.01)
    assert named(minilm_kinds, "next")["1.8"] == pytest.approx(0.563, abs=0.1)
    assert named(minilm_kinds, "duplicate")["2.9"] == pytest.approx(0.411, abs=0.06)
    assert named(minilm_kinds, "induction") == {}
    assert max(row["induction_weight"] for row in minilm_kinds.records()) < 0.03


@pytest.mark.parametrize(("name", "layers"), [("smollm", (18,)), ("minilm", (2,))])
def test_real_models_by_loops_over_tokens_on_eager_weights(
    name: str, layers: tuple[int, ...], request: pytest.FixtureRequest
) -> None:
    loaded: LoadedModel = request.getfixturevalue(name)
    source = ModelSource(loaded)
    prompt = source.repeated(0)[0]
    kinds = HeadKindsReducer()
    parts: dict[int, HeadKinds] = {}

    def visit(call) -> None:
        parts[call.place.layer] = reduce(call, kinds).part(HeadKinds)

    source.each([prompt], Selection(layers=layers), visit)
    ids, causal = torch.tensor([[token.id for token in prompt.tokens]]), name == "smollm"
    held = loaded.model.config._attn_implementation
    loaded.model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = loaded.model(input_ids=ids, output_attentions=True).attentions
    loaded.model.set_attn_implementation(held)
    n = len(prompt.tokens)
    seen = np.tri(n, dtype=bool) if causal else np.ones((n, n), dtype=bool)
    for layer in layers:
        names, special = [token.id for token in prompt.tokens], [token.special for token in prompt.tokens]
        dense = weights[layer][0].numpy().astype(float)
        wanted = numbers(dense, seen, names, special, [name for name in NAMES if name != "delimiter"], causal=causal)
        for number, kind in enumerate(KINDS):
            if kind.name in wanted:
                np.testing.assert_allclose(parts[layer].judged.weight[number], wanted[kind.name].weight, atol=1e-5)
                np.testing.assert_allclose(parts[layer].judged.baseline[number], wanted[kind.name].chance, atol=1e-9)
        hold_sinks(parts[layer], dense, seen)


def hold_sinks(part: HeadKinds, weights: np.ndarray, seen: np.ndarray) -> None:
    """Attention received by keys, and the sinks, by loops over dense weights `[h, n, m]` and visible cells `[n, m]`."""
    many = seen.sum(axis=1) >= 8
    of_rows = seen[many if many.any() else slice(None)].sum(axis=0)
    judged = of_rows >= min(8, of_rows.max(initial=0))
    reception, even = np.zeros(weights.shape[::2]), np.zeros(seen.shape[1])
    for key in range(seen.shape[1]):
        rows = np.flatnonzero(seen[:, key] & (many if many.any() else True))
        if len(rows):
            reception[:, key] = weights[:, rows, key].mean(axis=1)
            even[key] = (1 / seen[rows].sum(axis=1)).mean()
    np.testing.assert_allclose(part.received, weights.mean(axis=(0, 1)), atol=1e-5)
    near = np.abs(reception - 0.3) < 1e-5
    for head, of_head in enumerate(reception):
        sinks = set(np.flatnonzero((of_head > 0.3) & (of_head > 3 * even) & judged))
        assert sinks ^ set(np.flatnonzero(part.is_sink[head])) <= set(np.flatnonzero(near[head]))


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert"])
def test_residual_lengths_are_those_of_the_models_own_hidden_states(kind: str) -> None:
    model = tiny_model(kind, "tiny")
    ids = torch.tensor([[9, 21, 33, 45, 57, 69, 7, 81, 93, 3, 9, 17], [5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 0]])
    mask = (torch.arange(12)[None] < torch.tensor([[12], [8]])).long()
    found: list[tuple[int, int, np.ndarray]] = []

    def visit(call: Call) -> None:
        part = reduce(call, HeadKindsReducer()).part(HeadKinds)
        assert part is not None and part.residual is not None
        found.append((call.place.layer, call.place.text, part.residual))

    texts = [tuple(Token(at, str(at)) for at in range(n)) for n in (12, 8)]
    with torch.no_grad(), capture(model, visit, texts=texts):
        states = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    assert len(found) == 4
    for layer, text, residual in found:
        lengths = states[layer][text, : len(texts[text])].norm(dim=-1).numpy()
        np.testing.assert_allclose(residual, lengths / np.median(lengths), rtol=1e-5)


def random_network(width: int, scale: float, seed: int) -> LlamaModel:
    """30 layers of 9 heads with sharp scores, that learned nothing."""
    torch.manual_seed(seed)
    config = LlamaConfig(vocab_size=500, hidden_size=width, intermediate_size=72, num_hidden_layers=30,
                         num_attention_heads=9, num_key_value_heads=9, attn_implementation="sdpa")  # fmt: skip
    model = LlamaModel(config).eval()
    with torch.no_grad():
        for layer in model.layers:
            for part in (layer.self_attn.q_proj, layer.self_attn.k_proj):
                part.weight.mul_(scale)  # scores are `scale` squared times as sharp
    return model


def test_a_random_network_has_hardly_any_kinds() -> None:
    """In the texts of the diagnosis hardly a head is named by content, place or marks."""
    model, random = random_network(72, 30, 0), np.random.default_rng(0)
    drawn = [random.permutation(500)[:period].tolist() * 2 for period in (37, 50, 61)]
    texts = [tuple(Token(at, str(x), x) for at, x in enumerate(ids)) for ids in drawn]
    kinds = HeadKindsReducer(texts)
    found: dict[int, list[HeadKinds]] = {}
    for text in texts:
        ids = torch.tensor([[token.id for token in text]])

        def visit(call) -> None:
            found.setdefault(call.place.layer, []).append(reduce(call, kinds).part(HeadKinds))

        with torch.no_grad(), capture(model, visit, texts=[text]):
            model(input_ids=ids)
    names = []
    for parts in found.values():
        together = KindNumbers.together([part.numbers for part in parts]).mean
        names += [KINDS[kind].name for kind in together.kind if kind >= 0
                  and KINDS[kind].rank in (CONTENT, PLACE, MARKS)]  # fmt: skip
    assert len(names) <= 2


def test_ten_words_written_twice_are_enough_for_sharp_heads(smollm: LoadedModel) -> None:
    """On 9 rows with a target the first induction heads of the diagnosis get 0.5 or more, and a name."""
    words = "lamp river seven cloud paper horse green winter coffee stone"
    kinds = head_kinds(f"{words} {words}", ModelSource(smollm), layers=[5, 17, 18]).answer
    rows = {f"{row['layer']}.{row['head']}": row for row in kinds.records()}
    assert {"18.6", "18.7", "17.3", "17.4", "17.5"} <= {
        name for name, row in rows.items() if row["kind"] == "induction"
    }
    assert rows["5.6"]["kind"] == "duplicate"
    assert all(row["share"] >= 0.5 for row in rows.values() if row["kind"] in ("induction", "duplicate"))


STORE = "When Mary and John went to the store, John gave a drink to Mary and the book to"
TEXTS = {
    "a sentence": STORE,
    "six words": "he sat on the river bank",
    "Japanese": "日本語の文章を読む人は本を読む。彼は毎日新しい本を読むことが好きです。",
    "a chat": "User: Hi, can you help me?\nAssistant: Sure, what do you need?\nUser: A poem about the sea.\nAssistant:",
    "a refrain": "The quick brown fox jumps over the lazy dog. " * 6,
    "a word": "hello",
}


class Looked(NamedTuple):
    """The calls of a text with the kinds of their heads and all weights."""

    summaries: tuple[Summary, ...]

    @property
    def outs(self) -> list[StandOut]:
        return standing_out(self.summaries)

    def weights(self, call: int, at: int) -> np.ndarray:
        part = self.summaries[call].part(Matrix)
        assert part is not None and part.weights is not None
        return np.asarray(part.weights[at], np.float64)


def looked(tokens: tuple[Token, ...], run: Callable[[Callable[[Call], None]], object]) -> Looked:
    kinds, summaries = HeadKindsReducer(), list[Summary]()
    run(lambda call: summaries.append(reduce(call, kinds, MatrixOf())))
    return Looked(tuple(summaries))


def on_text(loaded: LoadedModel, text: str) -> Looked:
    source = ModelSource(loaded)
    prompt = source.read([text])[0]
    return looked(prompt.tokens, lambda visit: source.each([prompt], ALL, visit))


@pytest.fixture(scope="module")
def of_smollm(smollm: LoadedModel) -> dict[str, Looked]:
    return {name: on_text(smollm, text) for name, text in TEXTS.items()}


@pytest.fixture(scope="module")
def of_minilm(minilm: LoadedModel) -> dict[str, Looked]:
    return {name: on_text(minilm, text) for name, text in TEXTS.items()}


@pytest.fixture(scope="module")
def of_nothing_learned(minilm: LoadedModel) -> dict[str, Looked]:
    """The words of the same texts, read by a network that learned nothing."""
    model, found = random_network(288, 6, 3), {}
    for name, text in TEXTS.items():
        read = ModelSource(minilm).read([text])[0].tokens
        tokens = tuple(Token(at, token.text, (token.id or 0) % 500) for at, token in enumerate(read))
        ids = torch.tensor([[token.id for token in tokens]])

        def run(visit: Callable[[Call], None], ids: torch.Tensor = ids, tokens: tuple[Token, ...] = tokens) -> None:
            with torch.no_grad(), capture(model, visit, texts=[tokens]):
                model(input_ids=ids)

        found[name] = looked(tokens, run)
    return found


@pytest.mark.parametrize("model", ["of_smollm", "of_minilm", "of_nothing_learned"])
def test_no_head_is_named_whose_targets_get_less_than_a_tenth(model: str, request: pytest.FixtureRequest) -> None:
    """By loops over tokens on whole matrices; targets that are expected sinks aside."""
    causal, named = model != "of_minilm", 0
    for name, of_text in request.getfixturevalue(model).items():
        for call, summary in enumerate(of_text.summaries):
            part = summary.part(HeadKinds)
            assert part is not None
            for at, kind in enumerate(part.judged.kind.tolist()):
                if kind >= 0 and KINDS[kind] not in (DELIMITER, UNIFORM):  # named by the weight itself
                    weight = mean_on_targets(of_text.weights(call, at), KINDS[kind].name, summary.keys, causal=causal)
                    assert weight > 0.0999, (name, call, at, KINDS[kind].name)
                    named += 1
        for out in of_text.outs:
            assert out.weight >= 0.1
            assert out.strongest is not None
            query, key, weight = out.strongest
            assert of_text.weights(out.call, out.at)[query, key] == pytest.approx(weight, rel=1e-6)
            if out.kind is not FOCUSED:
                weights, keys = of_text.weights(out.call, out.at), of_text.summaries[out.call].keys
                assert mean_on_targets(weights, out.kind.name, keys, causal=causal) > 0.0999
    assert named or model == "of_nothing_learned"


def mean_on_targets(weights: np.ndarray, kind: str, tokens: tuple[Token, ...], *, causal: bool) -> float:
    names, special = [token.id for token in tokens], [token.special for token in tokens]
    sinks = set() if kind == FIRST.name else {0} if causal else {k for k in range(len(tokens)) if special[k]}
    rows = []
    for i in range(3 if causal else 0, len(weights)):
        at = [k for k in targets(kind, i, names, special, causal=causal) - sinks
              if 0 <= k < len(tokens) and (k <= i or not causal)]  # fmt: skip
        if at:
            rows.append(weights[i, at].sum())
    return float(np.mean(rows))


def test_overview_explorer_and_page_begin_at_the_cell_of_the_strongest_link(minilm: LoadedModel) -> None:
    view = opening(Scene(recording := record(ModelSource(minilm), TEXTS["a chat"]), Screen(80, "none", height=24)))
    assert [view.at, view.head, view.query, view.key] == [*Contents(recording).document["start"]]
    head = told_head(with_word_reads(Report("inspect", {}, (recording.prompt,), recorded_kinds(recording)))) or {}
    assert (head["layer"], head["head"], head["query"], head["key"]) == (view.at, view.head, view.query, view.key)
    given = recording.layers[view.at].weights(view.head, np.array([view.query]), slice(view.key, view.key + 1))
    np.testing.assert_allclose(head["weight"], given, atol=1e-5)


def test_a_recording_names_sinks_and_heads_as_the_model_does(smollm: LoadedModel, of_smollm: dict[str, Looked]) -> None:
    recording = record(ModelSource(smollm), STORE)
    kept, live = (Looked(summaries) for summaries in (recorded_kinds(recording), of_smollm["a sentence"].summaries))
    sinks, seen = (
        [(sink["key"], round(sink["residual_norm"] or 0, 2)) for sink in text_sinks(x.summaries)] for x in (kept, live)
    )
    assert sinks == seen and {key for key, *_ in seen} == {0, 6}
    assert all(residual > 1 for *_, residual in seen)
    assert [(out.name, out.kind, out.rows) for out in kept.outs] == [
        (out.name, out.kind, out.rows) for out in live.outs
    ]
