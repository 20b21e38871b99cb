"""The embeddings from which q, k and v are computed: the user's matrices, or a text's words looked up in a table."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attn_cli.errors import InputError
from attn_cli.kernel.definition.positions import sinusoidal
from attn_cli.prompt import Prompt
from attn_cli.sources import is_table, open_table_source
from attn_cli.sources.files.array_file import read_array
from attn_cli.sources.matrices.options import MatrixOptions


def read_matrix(options: MatrixOptions, name: str) -> np.ndarray | None:
    """The array of the file that the option `name` names; None where the option is not given."""
    file = getattr(options, name)
    if file is None:
        return None
    array = read_array(file, name=name)
    return array.astype(np.float64) if options.precise else array


class Words(NamedTuple):
    """A text's words in a table: vectors x `[n, width]`, and the table's q, k `[n, d]` and v `[n, e]`, or x."""

    prompt: Prompt
    name: str
    heads: int
    x: np.ndarray
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray

    @property
    def are_projected(self) -> bool:
        """True if the table brings q, k and v of its own, other than x."""
        return not np.array_equal(self.q, self.x)


@dataclass(frozen=True, eq=False)
class Embedded:
    """The embeddings that q, k and v are computed from; `lead` are batch axes.

    x        `[*lead, n, width]`: for queries, and for keys and values unless there is a context
    context  `[*lead, m, width]`: for keys and values; None where that is x
    heads    how many heads q is cut into: the option --heads, else those of the table's own q, k and v, else 1
    positions              the sinusoidal positions in x `[n, width]`; None for none
    words, context_words   the words behind x and context, with their vectors; None for matrices
    """

    x: np.ndarray
    context: np.ndarray | None
    heads: int
    words: Words | None = None
    context_words: Words | None = None
    positions: np.ndarray | None = None

    @property
    def source(self) -> np.ndarray:
        """The embeddings for keys and values `[*lead, m, width]`; lead are batch axes."""
        return self.x if self.context is None else self.context

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user: which words the table lacks."""
        texts = (self.context_words, self.words)
        return tuple(note for words in texts if words is not None for note in words.prompt.warnings)


def embed(options: MatrixOptions) -> Embedded:
    """The embeddings that the options name, from files or words, with positions if asked."""
    dtype = np.float64 if options.precise else None
    words = None if options.text is None else words_of(options.text, options.model, dtype)
    context_words = None if options.context_text is None else words_of(options.context_text, options.model, dtype)
    if words is None:
        matrix = read_matrix(options, "x")
        assert matrix is not None  # callers check that there are embeddings
        x = matrix
    else:
        x = words.x
    context = read_matrix(options, "context") if context_words is None else context_words.x
    heads = options.heads or (words.heads if words is not None and words.are_projected else 1)
    positions = None
    if options.positions == "sinusoidal":
        positions = _sinusoids(x)
        x, context = x + positions, None if context is None else context + _sinusoids(context)
    embedded = Embedded(x, context, heads, words, context_words, positions)
    source = embedded.source
    if source.shape[:-2] != x.shape[:-2]:
        raise InputError(f"the batch axes differ (x {x.shape}, context {source.shape})", "all but the last two axes")
    return embedded


def _sinusoids(x: np.ndarray) -> np.ndarray:
    return np.asarray(sinusoidal(np.arange(x.shape[-2], dtype=np.float64), x.shape[-1]), x.dtype)


def words_of(text: str, model: str, dtype: type | None = None) -> Words:
    """The vectors of the words of `text` in the table `model`; a word that it lacks is left out, with a warning."""
    if not is_table(model):
        raise InputError(
            f"{model} is not a table of word vectors", f"attn inspect TEXT --steps -m {model} follows a model"
        )
    source = open_table_source(model)
    prompt = source.read([text])[0]
    rows = [token.id for token in prompt.tokens if token.id is not None]
    x, q, k, v = (p if dtype is None else p.astype(dtype) for p in (source.table.rows(rows), *source.parts(rows)))
    return Words(prompt, str(source.about["model"]), source.table.heads, x, q, k, v)
