"""`attn compute --expect` of a whole module's numbers: dropout left on, and projections read the other way."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cli import kernels
from tests.cli.kernels import CAUSAL, Arrays
from tests.program import attn, file_words


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def cause(given: Arrays, expected: Arrays, *options: str, dtype: type = np.float64) -> str:
    """The cause that is named for arrays of the options that `given` and `expected` name."""
    for name, x in (given | expected).items():
        np.save(f"{name}.npy", x.astype(dtype))
    words = [*file_words(given), *(word for name in expected for word in ("--expect", f"{name}={name}.npy"))]
    run = attn("compute", *words, *options, "-q", "--json")
    assert run.code == 1
    return run.json["tables"]["verdicts"][0]["cause"] or ""


def dropped(x: np.ndarray, p: float, seed: int) -> np.ndarray:
    torch.manual_seed(seed)
    return torch.nn.functional.dropout(torch.from_numpy(x), p).numpy()


def uncovered(a: Arrays) -> np.ndarray:
    return kernels.soft(kernels.scores_of(a))


def masked(a: Arrays) -> np.ndarray:
    return kernels.weights_of(kernels.scores_of(a))


DROPOUT = "dropout was left on, p about"


@pytest.mark.parametrize(("weights", "mask"), [(uncovered, ()), (masked, CAUSAL)])
@pytest.mark.parametrize(("p", "dtype"), [(0.1, np.float64), (0.1, np.float16), (0.33, np.float32), (0.5, np.float64)])
def test_dropout_left_on_is_named_with_its_p(weights, mask: tuple[str, ...], p: float, dtype: type) -> None:
    for seed, g in enumerate((4, 2, 1)):
        a = {name: x.astype(dtype).astype(float) for name, x in kernels.arrays(seed, n=40, d=64, g=g).items()}
        right = weights(a)
        wrong = dropped(right, p, seed)
        output = wrong @ kernels.repeat(a["v"], 4)
        assert f"{DROPOUT} {p:g}:" in cause(a, {"weights": wrong}, *mask, dtype=dtype)
        if dtype is not np.float16:  # too few digits for the weights behind an output
            assert f"{DROPOUT} {p:g}:" in cause(a, {"output": output, "weights": right}, *mask, dtype=dtype)
            assert f"{DROPOUT} {p:g}:" in cause(a, {"output": output}, *mask, dtype=dtype)


def test_dropout_of_the_output_is_named() -> None:
    a = kernels.arrays(3)
    named = cause(a, {"output": dropped(kernels.plain(a), 0.25, 1)}, *CAUSAL)
    assert "dropout was left on for the output, p about 0.25" in named


@pytest.mark.parametrize("names", ["q", "k", "v", "o", "qk", "qkv", "qkvo", "vo"])
@pytest.mark.parametrize(("dtype", "options"), [(np.float64, ()), (np.float32, ("--positions", "rotary", *CAUSAL))])
def test_square_weights_of_linear_layers_are_named_as_transposed(names: str, dtype: type, options) -> None:
    """The module is torch's own, whose weights are [out, in]; of `names` they were saved as they are."""
    torch.manual_seed(len(names))
    layers = {name: torch.nn.Linear(32, 32, bias=False, dtype=torch.float64) for name in "qkvo"}
    x = torch.randn(20, 32, dtype=torch.float64)
    given = {"x": x.numpy()}
    given |= {f"w{n}": (w.weight if n in names else w.weight.T).detach().numpy() for n, w in layers.items()}
    given = {name: a.astype(dtype).astype(float) for name, a in given.items()}
    wq, wk, wv, wo = (given[f"w{n}"] if n not in names else given[f"w{n}"].T for n in "qkvo")
    q, k, v = ((given["x"] @ w).reshape(20, 4, 8).swapaxes(0, 1) for w in (wq, wk, wv))
    q, k = (kernels.turned(q), kernels.turned(k)) if options else (q, k)
    output = kernels.plain({"q": q, "k": k, "v": v}, mask=None if options else np.ones((1, 1), bool))
    named = cause(given, {"output": output.swapaxes(0, 1).reshape(20, 32) @ wo}, "--heads", "4", *options, dtype=dtype)
    assert named.startswith(f"{', '.join(f'w{n}' for n in names)} {'is' if len(names) == 1 else 'are'} transposed")


def test_w_o_left_out_is_named() -> None:
    random = np.random.default_rng(0)
    given = {"x": random.normal(size=(9, 8)), "wo": random.normal(size=(8, 8))}
    heads = given["x"].reshape(9, 2, 4).swapaxes(0, 1)
    output = (kernels.soft(heads @ heads.mT / 2) @ heads).swapaxes(0, 1).reshape(9, 8)
    assert "W_O was not applied" in cause(given, {"output": output}, "--heads", "2")


def test_mixed_batch_entries_are_named() -> None:
    random = np.random.default_rng(0)
    q, k, v = random.normal(size=(3, 3, 2, 7, 4))
    seen = np.arange(7) < np.array([4, 7, 6])[:, None, None, None]

    def attention(k: np.ndarray, v: np.ndarray, seen: np.ndarray) -> np.ndarray:
        return kernels.soft(np.where(seen, q @ k.mT / 2, -np.inf)) @ v

    def causes(output: np.ndarray) -> list[str | None]:
        cause({"q": q, "k": k, "v": v}, {"output": output}, "--mask", "lengths:4,7,6")
        files = ("--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--mask", "lengths:4,7,6", "--expect", "output.npy")
        return [check["cause"] for check in attn("compute", *files, "-q", "--json").json["tables"]["verdicts"]]

    assert causes(attention(k[:1], v[:1], seen)) == [None, *["k and v are those of batch entry 0"] * 2]
    assert causes(attention(k, v, seen[:1])) == [None, *["the mask is that of batch entry 0"] * 2]
