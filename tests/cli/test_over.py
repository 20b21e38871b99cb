"""--over: a number of every head through the checkpoints of a training run."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attn_cli.errors import ExitCode
from tests.media import tokenizer
from tests.program import attn, refused
from tests.real_models import MINILM
from tests.views.test_schemas import hold

TEXT = "the cat sat"
FACTORS = {2: 1.0, 10: 3.0, 100: 30.0}


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three checkpoints of a tiny Llama, the query matrix of whose head 0.1 grows by the factors of their steps."""
    folder = tmp_path_factory.mktemp("run")
    torch.manual_seed(0)
    shape = LlamaConfig(vocab_size=len(tokenizer()), hidden_size=64, intermediate_size=64, num_hidden_layers=2,
                        num_attention_heads=4, num_key_value_heads=4, initializer_range=0.3)  # fmt: skip
    model = LlamaForCausalLM(shape)
    query = model.model.layers[0].self_attn.q_proj.weight
    plain = query.detach().clone()
    for step, factor in FACTORS.items():
        with torch.no_grad():
            query[16:32] = factor * plain[16:32]
        model.save_pretrained(folder / f"step-{step}")
        tokenizer().save_pretrained(folder / f"step-{step}")
    return str(folder / "step-*")


def test_a_number_is_that_of_each_checkpoint_in_the_order_of_steps(pattern: str) -> None:
    run = attn("heads", TEXT, "-m", pattern, "--over", "--sort", "max", "--json")
    hold(run, "checkpoints")
    result = run.json["result"]
    models = [pattern.replace("*", str(step)) for step in FACTORS]
    assert result["checkpoints"] == models
    assert (result["heads"][0]["layer"], result["heads"][0]["head"]) == (0, 1)
    factors = [*FACTORS.values()]
    largest = result["heads"][0]["values"]
    np.testing.assert_allclose(largest, [x * largest[0] for x in factors], rtol=1e-5)
    for at, model in enumerate(models):
        alone = attn("heads", TEXT, "-m", model, "--json").json["result"]["heads"]
        expected = {(row["layer"], row["head"]): row["max_score"] for row in alone}
        found = {(row["layer"], row["head"]): row["values"][at] for row in result["heads"]}
        assert found == pytest.approx(expected)
    moves = [row["moved"] for row in result["heads"]]
    assert moves == sorted(moves, reverse=True) == [max(row["values"]) - min(row["values"]) for row in result["heads"]]


def test_rows_and_a_screen_have_the_heads_that_move_most(pattern: str) -> None:
    run = attn("heads", TEXT, "-m", pattern, "--over", "--top", "2", "-f", "csv")
    rows = [*csv.DictReader(io.StringIO(run.text))]
    assert [Path(row["checkpoint"]).name for row in rows] == 2 * [f"step-{step}" for step in FACTORS]
    assert (rows[0]["layer"], rows[0]["head"]) == ("0", "1")
    assert float(rows[0]["entropy_bits"]) > float(rows[2]["entropy_bits"])
    screen = attn("heads", TEXT, "-m", pattern, "--over", "--top", "2").text
    assert "entropy (bits) in 3 checkpoints, step-2 to step-100" in screen
    (line,) = (line for line in screen.splitlines() if line.startswith("   0.1"))
    assert line.endswith("▁") and len(line.split()[-1]) == len(FACTORS)
    still = attn("heads", TEXT, "-m", pattern, "--over", "--sort=-entropy", "--json").json["result"]["heads"]
    assert (still[-1]["layer"], still[-1]["head"]) == (0, 1)


def test_what_cannot_be_followed_is_refused(pattern: str, tmp_path: Path) -> None:
    refused(attn("heads", TEXT, "-m", pattern + "9", "--over"), ExitCode.USAGE, "step-*9 matches 0")
    refused(attn("heads", TEXT, "-m", pattern, "--over", "--words"), ExitCode.USAGE, "--over and --words at once")
    refused(attn("heads", TEXT, "-m", pattern, "--over", "--sort", "x"), ExitCode.USAGE, "not a column")
    (tmp_path / "a-1").symlink_to(pattern.replace("*", "2"))
    (tmp_path / "a-2").symlink_to(MINILM)
    refused(attn("heads", TEXT, "-m", tmp_path / "a-*", "--over"), ExitCode.USAGE, "a-2 tokenizes the text differently")
