"""Writers on SmolLM2 and on random networks: a small sample of what the benchmark of writers measures."""

import pytest

from attn_cli.model.intervention import HeadPlace
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.source import ModelSource
from tests.benchmarks.writers import chance_of, random_network, strongest_head, writers_of_key
from tests.loaded import load_once
from tests.real_models import SMOL


def test_a_previous_token_head_wrote_the_key_of_an_induction_head() -> None:
    """The known circuit: 18.6 finds the token after the earlier one by what 16.0 wrote there."""
    source = ModelSource(load_once(find(str(SMOL), OriginOptions(predicts=True)), generates=True))
    prompt = source.repeated(1000)[0]
    sums = writers_of_key(source, prompt, HeadPlace(18, 6), [len(prompt.tokens) - 5])
    assert strongest_head(sums) == HeadPlace(16, 0)
    assert sums.most_common(1)[0][0].name == "head 16.0"  # of all writers


@pytest.mark.parametrize("seed", [0, 1])
def test_no_writer_of_a_random_network_is_above_chance(seed: int) -> None:
    p, _ = chance_of(random_network(seed), seed, HeadPlace(2, seed))
    assert p > 0.01
