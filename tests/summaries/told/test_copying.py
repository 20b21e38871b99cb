"""Whether heads that find content copy: planted heads that copy, suppress, and write the same whatever they read."""

import numpy as np
import pytest

from attn_cli.selection import ALL
from attn_cli.summaries.answers.kinds import CollectedKinds
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.told.copying import Copying, find_content, tell_copying
from attn_cli.summaries.told.kept_story import copying_document, told_copying
from tests.sources.huggingface.intervene.oracle import prompt_of, speaking_source
from tests.summaries.told.copying_model import CONSTANT, COPIES, IDS, PERIOD, SUPPRESSES, WORDS, copying_source


@pytest.fixture(scope="module")
def told() -> Copying:
    source, prompt = copying_source(), prompt_of(IDS)
    copying = tell_copying(source, prompt, summaries_of(source, prompt))
    assert copying is not None
    return copying


def summaries_of(source: object, prompt: object) -> tuple[Summary, ...]:
    collected = CollectedKinds([prompt], 0, by_share=True)  # type: ignore[list-item]
    source.each([prompt], ALL, collected.visit)  # type: ignore[attr-defined]
    return collected.summaries


def test_a_head_that_copies_one_that_suppresses_and_one_that_does_neither(told: Copying) -> None:
    heads = {head.place.head: head for head in told.heads}
    assert {head: (x.copies, x.suppresses) for head, x in heads.items()} == {
        COPIES: (True, False), SUPPRESSES: (False, True), CONSTANT: (False, False)
    }  # fmt: skip
    assert heads[COPIES].most == heads[COPIES].first == heads[COPIES].rows == len(IDS) - PERIOD
    assert heads[SUPPRESSES].most == heads[SUPPRESSES].first == 0
    assert heads[COPIES].logit == pytest.approx(-heads[SUPPRESSES].logit)
    assert heads[COPIES].raised_p == pytest.approx(1 / 1001)  # no shuffle gives as much
    assert heads[CONSTANT].raised_p == heads[CONSTANT].lowered_p == 1  # every shuffle does
    assert told.vocabulary == WORDS and told.obstacle == ""


def test_a_run_that_is_kept_tells_the_same(told: Copying) -> None:
    assert told_copying(copying_document(told)) == told
    assert told_copying(copying_document(None)) is None


def test_what_is_not_known_is_said() -> None:
    """A model whose logit is no sum of its heads; one in which no head finds content."""
    source, prompt = copying_source(), prompt_of(IDS)
    summaries = summaries_of(source, prompt)
    found = tell_copying(speaking_source("falcon_h1"), prompt, summaries)
    assert found is not None and found.heads == () and "adds more than attention" in found.obstacle
    plain = speaking_source("llama")
    others = summaries_of(plain, prompt_of())
    assert not find_content(others) and tell_copying(plain, prompt_of(), others) is None


def test_p_is_the_share_of_all_orders_of_the_tokens(told: Copying) -> None:
    """With 12 tokens of which each is written alone, the mean of shuffles is that of one token in 12."""
    (head,) = [x for x in told.heads if x.place.head == COPIES]
    assert head.shuffled == pytest.approx(head.logit / PERIOD, abs=0.15 * head.logit)
    assert np.isfinite(head.logit) and head.logit > 1
