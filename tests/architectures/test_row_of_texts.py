"""Texts in one row of tokens, without padding: the same attention as in a padded batch, or the model isn't read so."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast
from unittest.mock import patch

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from attn_cli.call import Call
from attn_cli.kernel.cpu import walk as cpu
from attn_cli.kernel.stats.wanted import ColumnSums, RowStats, TopK, Wanted
from attn_cli.packed_call import PackedCall, PackedVisit
from attn_cli.selection import ALL
from attn_cli.sources.huggingface.anatomy.configuration import number_of, text_configuration
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.observed import ObservedAttention
from attn_cli.sources.huggingface.capture.row_of_texts import RowOfTexts
from attn_cli.sources.huggingface.capture.session import Capture, unlabelled
from attn_cli.sources.huggingface.compat import is_newer_than_tested
from attn_cli.sources.huggingface.one_row import supports_packing
from attn_cli.sources.huggingface.read.padding import padded as padded_batch
from attn_cli.sources.huggingface.read.positions import counted_from, position_count
from tests.architectures.check import built
from tests.architectures.reasons import NOT_BUILT
from tests.architectures.tiny import every_type

READ = """bert electra distilbert roberta xlm-roberta modernbert nomic_bert gpt2 gpt_neox opt llama mistral mixtral
    qwen2 qwen3 qwen3_moe gemma2 gemma3_text phi3 olmo2 smollm3 gpt_oss deepseek_v3 stablelm starcoder2 cohere2"""
# ALiBi, positions relative to keys, attention outside the registry, convolutions, recurrences, two stacks, chunks.
NOT_READ = """bloom mpt falcon@alibi deberta deberta-v2 gptj gpt_neo codegen squeezebert lfm2_moe qwen3_next jamba
    recurrent_gemma t5 bart llama4_text"""
LENGTHS = (9, 30, 1, 17, 24, 30, 3)
LARGEST = TopK(1, scores=False)
TOLERANCE = 2e-5


@pytest.mark.parametrize("name", READ.split())
def test_these_are_read_side_by_side(name: str) -> None:
    model = cast(PreTrainedModel, built(name)[0]).float()
    assert supports_packing(model)
    check_the_same(model)


@pytest.mark.parametrize("name", NOT_READ.split())
def test_these_are_not(name: str) -> None:
    model = cast(PreTrainedModel, built(name)[0]).float()
    if supports_packing(model):
        assert is_newer_than_tested()  # gptj and codegen use the registry from transformers 5.24 on
        check_the_same(model)


@pytest.mark.every_type
@pytest.mark.parametrize("name", every_type())
def test_any_type_is_read_as_in_a_padded_batch(name: str) -> None:
    if reason := NOT_BUILT.get(name):
        pytest.skip(reason)
    try:
        model = built(name)[0].float()
    except ImportError as error:
        pytest.skip(str(error))
    if not supports_packing(model):
        pytest.skip("is read padded")
    check_the_same(model)


class Numbers(PackedVisit):
    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.of: dict[tuple[str, int], RowStats] = {}

    def of_texts(self, packed: PackedCall) -> None:
        self.of[packed.place.name, len(self.of)] = packed.stats_of_texts(on_rows(self.wanted, packed.n))

    def __call__(self, call: Call) -> None:
        raise AssertionError("texts of these models can be packed")


def on_rows(wanted: Wanted, n: int) -> Wanted:
    more = n - len(wanted.key_sets[0])
    sets = tuple(np.pad(keys, ((0, more), (0, 0)), constant_values=-1) for keys in wanted.key_sets)
    return replace(wanted, key_sets=sets, vectors=tuple(np.pad(vector, (0, more)) for vector in wanted.vectors))


def check_the_same(model: PreTrainedModel) -> None:
    """What is noted of rows, and what the model returns, packed and padded; also without compiled code."""
    positions = position_count(model) or max(LENGTHS)
    size = number_of(text_configuration(model.config), "vocab_size") or 1
    random = np.random.default_rng(1)
    ids = [random.integers(0, size, min(length, positions)) for length in LENGTHS]
    texts = RowOfTexts(ids, padded_batch(ids, 0, model.device), counted_from(model))
    real = texts.rows.places[texts.rows.places >= 0]
    wanted = wanted_of([len(text) for text in ids])
    for in_bands in (False, True):
        with patch.object(cpu, "suits", (lambda *_: False) if in_bands else cpu.suits):
            padded, expected = run(model, None, texts, wanted)
            beside, output = run(model, texts, texts, wanted)
        assert list(beside.of) == list(padded.of)
        assert beside.of
        for place, other in padded.of.items():
            mine = beside.of[place]
            for name, numbers in of_rows(mine, len(real)).items():
                np.testing.assert_allclose(numbers, of_rows(other, len(real))[name], rtol=1e-4, atol=TOLERANCE,
                                           err_msg=f"{place} {name}")  # fmt: skip
            sure = other.tops[LARGEST].weights > 0.1  # not all weights are alike
            assert (mine.tops[LARGEST].keys == other.tops[LARGEST].keys)[sure].mean() > 0.9 if sure.any() else True
        scale = float(expected.abs().max())
        np.testing.assert_allclose(texts.with_padding(output[:, None])[:, 0].flatten(0, 1)[real] / scale,
                                   expected.flatten(0, 1)[real] / scale, atol=TOLERANCE)  # fmt: skip


def of_rows(stats: RowStats, count: int) -> dict[str, np.ndarray]:
    """Everything that has a number for each row, or for each key, of texts with so many tokens."""
    names = (*stats.wanted.moments, "key_sums", "vector_sums")
    more = {"bins": stats.distance_sums[0], "largest": stats.tops[LARGEST].weights}
    of_keys = {"received": stats.column_sums[ColumnSums()][:, :count]}
    return {name: getattr(stats, name) for name in names} | more | of_keys


def wanted_of(lengths: Sequence[int]) -> Wanted:
    """Keys, a list of keys and a vector of every row's own text, as a scan asks for."""
    own = np.arange(sum(lengths))
    first = np.repeat(np.cumsum([0, *lengths[:-1]]), lengths)
    before = np.stack([own, np.where(own > first, own - 1, -1)], axis=1)
    return Wanted(
        moments=("weight_sum", "entropy_nats", "distance"),
        key_sets=(first[:, None], np.maximum(own - 1, first)[:, None], before),
        vectors=((own % 3 == 0).astype(np.float32),),
        distance_edges=(np.array([-(2**30), -4, 0, 1, 2**30], np.int32),),
        tops=(LARGEST,),
        column_sums=(ColumnSums(),),
    )


def run(
    model: PreTrainedModel, beside: RowOfTexts | None, texts: RowOfTexts, wanted: Wanted
) -> tuple[Numbers, torch.Tensor]:
    """What is noted of the rows of texts, and the model's first output."""
    visit, ledger = Numbers(wanted), Ledger(model, ALL, unlabelled(model))
    with Capture(model, ObservedAttention(ledger, visit, row_of_texts=beside)), torch.no_grad():
        output: torch.Tensor = model(**(texts.padded if beside is None else texts.arguments))[0]
    return visit, output
