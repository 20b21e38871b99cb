"""`-m timm:NAME` and `-m package.module:factory`: torch modules of other libraries, by name."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from attn_cli.errors import ExitCode
from attn_cli.selection import PlannedLayer, Selection
from attn_cli.sources import open_source
from tests.media import image_file
from tests.program import attn, refused, strict_json

_NETS = """
import torch
from torch import nn
def build():
    torch.manual_seed(0)
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 3)
def wants(width): return nn.Linear(width, width)
def fails(): raise ValueError("no such\\nthing")
number = 3
ready = build()
class Own(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.num_heads, self.qkv = 2, nn.Linear(16, 48)
    def forward(self, src):
        q, k, v = self.qkv(src).view(1, -1, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return (q @ k.mT).softmax(-1) @ v
class Fused(Own):
    def forward(self, src):
        q, k, v = self.qkv(src).view(1, -1, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)
class Signed(Own):
    def forward(self, src):
        q, k, v = self.qkv(src).view(1, -1, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return ((q @ k.mT).softmax(-1) - (k @ q.mT).softmax(-1)) @ v
def scripted(): return torch.jit.script(nn.MultiheadAttention(16, 2))
class Around(Own):
    def __init__(self):
        super().__init__()
        self.inner = scripted()
    def forward(self, src): return self.inner(src, src, src)[0]
"""


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a Python module in the current folder, with an array of its encoder's input beside it."""
    name = f"nets_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(_NETS)
    np.savez(tmp_path / "in.npz", src=np.random.default_rng(0).normal(size=(1, 6, 16)).astype(np.float32))
    np.savez(tmp_path / "wide.npz", src=np.zeros((1, 6, 7), np.float32))
    np.savez(tmp_path / "other.npz", foo=np.zeros((1, 6, 16), np.float32))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [x for x in sys.path if x])
    yield name
    sys.modules.pop(name, None)


@pytest.mark.parametrize("what", ["build", "ready"])
def test_the_weights_of_a_factory_in_the_current_folder(nets: str, what: str) -> None:
    run = attn("matrix", "-m", f"{nets}:{what}", "-F", "in.npz", "-q", "-o", "w.npz")
    assert run.code == 0, run.errors
    encoder: Any = sys.modules[nets].build().eval()
    given = torch.from_numpy(np.load("in.npz")["src"])
    with torch.no_grad():
        first = encoder.layers[0].self_attn
        _, plain = first(given, given, given, average_attn_weights=False)
    found = np.load("w.npz")
    np.testing.assert_allclose(found["weights"][0], plain[0], atol=1e-6)  # [layers, h, n, n]


def test_weights_below_0_have_no_entropy_and_are_written_without_scores(nets: str) -> None:
    named = "-m", f"{nets}:Signed", "-F", "in.npz"
    run = attn("matrix", *named, "-o", "w.npz")
    assert run.code == 0
    assert "no scores of layers 0: their own code shows weights alone" in run.errors
    with torch.no_grad():
        qkv = sys.modules[nets].Own().qkv(torch.from_numpy(np.load("in.npz")["src"]))
    q, k, _ = qkv.view(6, 3, 2, 8).permute(1, 2, 0, 3)
    expected = ((q @ k.mT).softmax(-1) - (k @ q.mT).softmax(-1)).numpy()
    found = np.load("w.npz")
    np.testing.assert_allclose(found["weights"][0], expected, atol=1e-6)
    assert "scores" not in found
    assert f"min {expected[0].min():.3g} max {expected[0].max():.3g}" in attn("matrix", *named).text
    for row, weights in zip(attn("heads", *named, "--json").json["tables"]["heads"], expected, strict=True):
        assert [row[name] for name in ("entropy_bits", "distance", "ruled")] == [None] * 3
        assert row["first_weight"] == pytest.approx(weights[:, 0].mean(), abs=1e-6)


@pytest.mark.parametrize("what", ["Own", "Fused"])
def test_a_module_that_is_the_attention(nets: str, what: str) -> None:
    run = attn("matrix", "-m", f"{nets}:{what}", "-F", "in.npz", "-q", "-o", "w.npz")
    assert run.code == 0, run.errors
    with torch.no_grad():
        qkv = sys.modules[nets].Own().qkv(torch.from_numpy(np.load("in.npz")["src"]))
    q, k, _ = qkv.view(6, 3, 2, 8).permute(1, 2, 0, 3)
    np.testing.assert_allclose(np.load("w.npz")["weights"][0], (q @ k.mT).softmax(-1), atol=1e-6)
    source = open_source(f"{nets}:{what}", inputs="in.npz")
    assert source.planned_layers(Selection()) == [PlannedLayer(0, 2)]
    for command in ("heads", "top", "inspect", "layers"):
        assert attn(command, "-m", f"{nets}:{what}", "-F", "in.npz").code == 0


@pytest.mark.parametrize(
    ("what", "file", "code", "lines"),
    [
        ("wants", "in.npz", ExitCode.USAGE, "{} wants width\n      name a factory that takes no arguments"),
        ("fails", "in.npz", ExitCode.LOAD, "{} can't be built: ValueError: no such\n      --debug"),
        ("number", "in.npz", ExitCode.USAGE, "{} gives int, not a torch module\n      name an nn.Module"),
        ("missing", "in.npz", ExitCode.LOAD, "{nets} has no missing\n      name a module or a factory"),
        ("build", "other.npz", ExitCode.USAGE, "other.npz: the model takes no foo\n      it takes src, mask"),
        ("build", "wide.npz", ExitCode.USAGE, "{} (TransformerEncoder) can't be run on this: was expecting embedding"),
        ("Around", "in.npz", ExitCode.LOAD, "inner (MultiheadAttention) is compiled by torch.jit"),
    ],
)
def test_what_is_no_module_or_does_not_fit_is_refused(
    nets: str, what: str, file: str, code: ExitCode, lines: str
) -> None:
    title = f"{nets}:{what}"
    refused(attn("heads", "-m", title, "-F", file), code, lines.replace("{nets}", nets).replace("{}", title))


class Patches(nn.Module):
    """A vision transformer that states its grid as timm's do, of 2 x 2 patches and a class token."""

    num_prefix_tokens = 1

    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, 16, 4, 4)
        self.patch_embed.grid_size = (2, 2)  # type: ignore[assignment]
        self.cls = nn.Parameter(torch.zeros(1, 1, 16))
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        patches = self.patch_embed(x).flatten(2).mT
        out: torch.Tensor = self.blocks(torch.cat([self.cls, patches], 1))
        return out


def test_a_model_of_timm_reads_an_image_by_its_own_transform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timm: Any = ModuleType("timm")
    timm.create_model = lambda name, pretrained: Patches() if (name, pretrained) == ("tiny", True) else {}[name]
    timm.data = ModuleType("timm.data")
    timm.data.resolve_model_data_config = lambda _: {"input_size": (3, 8, 8)}
    timm.data.create_transform = lambda input_size, is_training: (
        lambda image: torch.from_numpy(np.asarray(image.resize(input_size[1:]), np.float32)).permute(2, 0, 1)
    )
    monkeypatch.setitem(sys.modules, "timm", timm)
    cat = image_file(tmp_path / "cat.png", bright=(1, 2))
    output = strict_json(attn("top", "-m", "timm:tiny", "--image", cat, "-H", "1.0", "--json").text)
    assert [token["text"] for token in output["input"]["tokens"]] == ["[CLS]", "r0,c0", "r0,c1", "r1,c0", "r1,c1"]
    assert output["warnings"] == []
    refused(attn("top", "-m", "timm:tiny", "--image", cat, "a cat"), ExitCode.USAGE, "timm:tiny reads no text beside")
    refused(attn("top", "-m", "timm:tiny", "a cat"), ExitCode.USAGE, "timm:tiny reads no text by itself")
    refused(attn("top", "-m", "timm:none", "--image", cat), ExitCode.LOAD, "timm:none can't be built: KeyError: 'none'")
