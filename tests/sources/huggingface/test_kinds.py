"""Kinds of heads of real models, by name, and what a model loses without them; tiny models of other kinds."""

from collections import Counter

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel

from attn_cli.call import Call
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.answer import Answer
from attn_cli.summaries.answers.kinds import head_kinds
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds, HeadKindsReducer, KindNumbers
from attn_cli.summaries.reducers.kinds.targets import CONTENT, KINDS, MARKS, PLACE, UNIFORM
from attn_cli.summaries.text_sinks import is_hub
from tests.architectures.tiny import tiny_model
from tests.sources.huggingface.runs import eager_by_stream
from tests.summaries.reducers.kinds.oracle import numbers

NAMES = [kind.name for kind in KINDS if kind is not UNIFORM]


@pytest.fixture(scope="module")
def smollm_kinds(smollm: LoadedModel) -> Answer:
    return head_kinds(ModelSource(smollm))


@pytest.fixture(scope="module")
def minilm_kinds(minilm: LoadedModel) -> Answer:
    return head_kinds(ModelSource(minilm))


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
    np.testing.assert_allclose(part.reception, reception.mean(axis=0), atol=1e-5)
    near = np.abs(reception - 0.3) < 1e-5
    for head, of_head in enumerate(reception):
        sinks = set(np.flatnonzero((of_head > 0.3) & (of_head > 3 * even) & judged))
        assert sinks ^ set(np.flatnonzero(part.is_sink[head])) <= set(np.flatnonzero(near[head]))


def test_the_model_cannot_repeat_without_its_induction_heads(smollm: LoadedModel, smollm_kinds: Answer) -> None:
    """The causal oracle: bits a token on the second R, with heads silenced in its rows before W_O."""
    prompt = ModelSource(smollm).repeated(0)[0]
    heads = [tuple(map(int, head.split("."))) for head in list(named(smollm_kinds, "induction"))[:12]]
    wanted = Counter(layer for layer, _ in heads)
    others = {layer: others_of(smollm_kinds, layer, count) for layer, count in wanted.items()}
    draws = []
    for seed in range(8):
        random = np.random.default_rng(seed)
        draws.append([(layer, head) for layer in wanted for head in random.permutation(others[layer])[: wanted[layer]]])
        assert len(draws[-1]) == 12
    plain, silenced, *changed = losses(smollm, prompt, [[], heads, *draws])
    assert plain < 5
    assert silenced > 15
    assert max(abs(bits - plain) for bits in changed) < 0.5


def others_of(kinds: Answer, layer: int, count: int) -> list[int]:
    """The heads of a layer that give the targets of induction less than chance; with fewer than `count`, the least."""
    rows = [row for row in kinds.records() if row["layer"] == layer and row["kind"] != "induction"]
    rows.sort(key=lambda row: row["induction_weight"])
    under = [row["head"] for row in rows if row["induction_weight"] < row["induction_baseline"]]
    return under if len(under) >= count else [row["head"] for row in rows[:count]]


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


def test_a_key_with_neither_sign_of_a_sink_is_a_hub() -> None:
    signs = {(0.2, 1.0): False, (1.0, 9.0): False, (0.9, 1.1): True, (0.9, None): False, (None, 1.0): False}
    assert {sign: is_hub(*sign) for sign in signs} == signs


def losses(loaded: LoadedModel, prompt: Prompt, silenced: list[list[tuple[int, int]]]) -> list[float]:
    """Mean bits per token of the second half, for each list of heads set to 0 before W_O in its rows."""
    model = loaded.model
    width, half = model.config.head_dim, len(prompt.tokens) // 2
    ids = torch.tensor([[token.id for token in prompt.tokens]])

    def zeroed(layer: int, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        for text, heads in enumerate(silenced):
            for head in (head for at, head in heads if at == layer):
                x[text, :, head * width : (head + 1) * width] = 0
        return x

    with torch.no_grad():
        past = model(input_ids=ids[:, :half], use_cache=True).past_key_values
        past.batch_repeat_interleave(len(silenced))
        hooks = [
            block.self_attn.o_proj.register_forward_pre_hook(lambda _, args, at=at: (zeroed(at, args[0]), *args[1:]))
            for at, block in enumerate(model.layers)
        ]
        again = ids[:, half:].repeat(len(silenced), 1)
        hidden = model(input_ids=again, past_key_values=past).last_hidden_state[:, :-1]
        for hook in hooks:
            hook.remove()
        nats = [
            torch.nn.functional.cross_entropy(
                (rows @ model.get_input_embeddings().weight.T).float(), ids[0, half + 1 :]
            )
            for rows in hidden  # the matrix is tied in this model
        ]
    return [float(x) / np.log(2) for x in nats]


def random_network(width: int, scale: float, seed: int) -> LlamaModel:
    """30 layers of 9 heads with sharp scores, that learned nothing."""
    torch.manual_seed(seed)
    config = LlamaConfig(vocab_size=500, hidden_size=width, intermediate_size=72, num_hidden_layers=30,
                         num_attention_heads=9, num_key_value_heads=9, attn_implementation="sdpa")  # fmt: skip
    model = LlamaModel(config).eval()
    sharpen([part.weight for layer in model.layers for part in (layer.self_attn.q_proj, layer.self_attn.k_proj)], scale)
    return model


def random_encoder(width: int, scale: float, seed: int) -> BertModel:
    """The same as an encoder with learned positions."""
    torch.manual_seed(seed)
    config = BertConfig(vocab_size=500, hidden_size=width, intermediate_size=72, num_hidden_layers=30,
                        num_attention_heads=9, attn_implementation="sdpa")  # fmt: skip
    model = BertModel(config).eval()
    own = [layer.attention.self for layer in model.encoder.layer]
    sharpen([part.weight for each in own for part in (each.query, each.key)], scale)
    return model


def sharpen(weights: list[torch.Tensor], scale: float) -> None:
    """Multiply the weights of projections of queries and keys, so that scores are `scale` squared times as sharp."""
    with torch.no_grad():
        for weight in weights:
            weight.mul_(scale)


NETWORKS = {"llama": random_network, "encoder": random_encoder}
READ = {
    "ten tokens twice": lambda random: [random.permutation(500)[:10].tolist() * 2],
    "a text": lambda random: [(random.zipf(1.4, 134) % 500).tolist()],
    "the diagnosis": lambda random: [random.permutation(500)[:p].tolist() * 2 for p in (37, 50, 61)],
}


@pytest.mark.parametrize(
    ("network", "width", "scale", "seed", "read"),
    [
        ("llama", 288, 6, 22, "a text"),
        ("llama", 576, 4, 204, "ten tokens twice"),
        ("llama", 72, 30, 0, "the diagnosis"),
        ("encoder", 288, 12, 201, "the diagnosis"),
    ],
)
def test_a_random_network_has_hardly_any_kinds(network: str, width: int, scale: float, seed: int, read: str) -> None:
    assert len(named_of_random_network(network, width, scale, seed, read)) <= 2


def named_of_random_network(network: str, width: int, scale: float, seed: int, read: str) -> list[str]:
    """The kinds of the heads of such a network that are named by content, place or marks."""
    model = NETWORKS[network](width, scale, seed)
    texts = [tuple(Token(at, str(x), x) for at, x in enumerate(ids)) for ids in READ[read](np.random.default_rng(seed))]
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
    return names


def test_ten_words_written_twice_are_enough_for_sharp_heads(smollm: LoadedModel) -> None:
    """On 9 rows with a target the first induction heads of the diagnosis get 0.5 or more, and a name."""
    words = "lamp river seven cloud paper horse green winter coffee stone"
    kinds = head_kinds(ModelSource(smollm), f"{words} {words}", selection=Selection(layers=(5, 17, 18)))
    rows = {f"{row['layer']}.{row['head']}": row for row in kinds.records()}
    assert {"18.6", "18.7", "17.3", "17.4", "17.5"} <= {
        name for name, row in rows.items() if row["kind"] == "induction"
    }
    assert rows["5.6"]["kind"] == "duplicate"
    assert all(row["share"] >= 0.5 for row in rows.values() if row["kind"] in ("induction", "duplicate"))


@pytest.mark.parametrize(
    "kind", ["mistral", "gemma2", "gpt_oss", "bloom", "deepseek_v3", "cohere", "bert", "olmo2", "jamba", "qwen3", "t5"]
)
def test_tiny_models_of_other_kinds(kind: str) -> None:
    """Grouped keys, window, softcap, learned sink, ALiBi, latent keys, parallel blocks, an encoder, norms, a hybrid."""
    model = tiny_model(kind, "tiny")
    random = np.random.default_rng(0)
    ids = {"input_ids": torch.tensor(random.integers(5, 25, (1, 28)))}
    if kind == "t5":
        ids["decoder_input_ids"] = torch.tensor(random.integers(5, 25, (1, 20)))
    streams = {name: tuple(Token(at, str(x), x) for at, x in enumerate(of[0].tolist())) for name, of in ids.items()}
    others = {"decoder": streams["decoder_input_ids"]} if kind == "t5" else {}
    kinds, calls = HeadKindsReducer(list(streams.values())), list[tuple[Call, HeadKinds]]()

    def visit(call: Call) -> None:
        part = reduce(call, kinds).part(HeadKinds)
        assert part is not None
        calls.append((call, part))

    with torch.no_grad():
        returned = model(**ids, output_attentions=True)
        with capture(model, visit, texts=[streams["input_ids"]], others=[others]):
            model(**ids)
    eager = eager_by_stream(returned)
    assert len(calls) == sum(map(len, eager.values())) > 0
    for call, part in calls:
        stream = call.place.stream
        dense = eager[stream].pop(0)
        seen = (dense > 0).any(axis=0)
        causal = kind != "bert" and stream in ("self", "decoder")
        wanted = numbers(dense, seen, [token.id for token in call.keys], [False] * call.m, NAMES, causal=causal,
                         cross=stream == "cross", learned_sink=kind == "gpt_oss")  # fmt: skip
        for number, of in enumerate(KINDS):
            if of is not UNIFORM and of.name != "delimiter":
                for name in ("weight", "share"):
                    np.testing.assert_allclose(getattr(part.judged, name)[number], getattr(wanted[of.name], name),
                                               atol=1e-5 if name == "weight" else 1e-4, err_msg=of.name)  # fmt: skip
        hold_sinks(part, dense, seen)
