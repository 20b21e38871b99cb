"""Origins of answers on SmolLM2: a small sample of what the benchmark of lookups and marks measures."""

import pytest

from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.source import ModelSource
from tests.benchmarks.traced import cited, read, truth
from tests.benchmarks.traced_texts import STYLES, Case
from tests.loaded import load_once
from tests.real_models import SMOL


@pytest.fixture(scope="module")
def source() -> ModelSource:
    return ModelSource(load_once(find(str(SMOL), OriginOptions(predicts=True)), generates=True))


@pytest.mark.parametrize("style", STYLES)
def test_the_part_without_whose_text_an_answer_loses_most_comes_first(source: ModelSource, style: str) -> None:
    """Masked for the rows of the answer it loses nearly what it loses without the text; a run a part, and one."""
    case = Case(style, 150, 2)
    found = read(source, case)
    without = truth(source, case, found["answer"])
    assert found["first"] == without["used"]
    assert found["bits"] == pytest.approx(without["bits"][str(found["first"])], rel=0.2) and found["bits"] < -10
    assert found["runs"] == found["parts"] + 1


@pytest.mark.parametrize("seed", [30, 31])
def test_each_sentence_is_marked_with_its_document(source: ModelSource, seed: int) -> None:
    found = cited(source, seed)
    assert found["marks"] == [[document] for document in found["sources"]]
    assert found["runs"] == found["parts"] + 1
