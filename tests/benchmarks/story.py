"""The cost of an overview that tells the story of its answer, in plain runs of the model with its LM head."""

import time
from collections.abc import Iterator

import torch

from attn_cli.call import Call, Look
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import ALL
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.chosen_matrix import with_one_head
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.heads.head_statistics import HeadStatistics
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer, KindTexts
from attn_cli.summaries.reducers.pooled import PooledMatrix
from attn_cli.summaries.reducers.received import ReceivedShares
from attn_cli.summaries.told.deciding_rows import DecidingRowsReducer
from attn_cli.summaries.told.story import deciding_rows, tell
from tests.benchmarks.knock import small_source
from tests.benchmarks.timing import Row, compared

LENGTHS = {20: None, 317: 2.2}  # tokens, and the most plain runs: looking 1.2, and one where words are masked
LONG = {2000: 2.2}


def rows(repeats: int, *, quick: bool) -> Iterator[Row]:
    """Texts of several lengths on a model of SmolLM2's size, in processor time."""
    source = small_source()
    for n, bar in (LENGTHS if quick else LENGTHS | LONG).items():
        prompt = text_of(n)
        model, arguments = source.loaded.generating, source.reader.arguments([prompt])
        assert model is not None

        def plain(model: torch.nn.Module = model, arguments: dict = arguments) -> None:  # type: ignore[type-arg]
            with torch.no_grad():
                model(**arguments, use_cache=False, logits_to_keep=1)

        candidates = {
            "looking, as before a story": lambda prompt=prompt: look(source, prompt),
            "looking, and the story": lambda prompt=prompt: story(source, prompt),
        }
        seconds, ratios = compared(plain, candidates, 1 if n > 1000 else repeats, time.process_time)
        for name, ratio in ratios.items():
            limit = bar if "story" in name and "before" not in name else None
            yield Row(f"smollm2-135m, n = {n}: {name}", "plain run, processor time", seconds, ratio, limit)


def text_of(n: int) -> Prompt:
    """A text of n random tokens, sentences of ten."""
    ids = torch.randint(0, 49152, (n,), generator=torch.Generator().manual_seed(0)).tolist()
    text, tokens = "", []
    for at, number in enumerate(ids):
        word = f"{number}{'.' if at % 10 == 9 else ''} "
        tokens.append(Token(at, word.strip(), number, len(text), len(text) + len(word) - 1))
        text += word
    return Prompt(text, tuple(tokens))


def look(source: ModelSource, prompt: Prompt) -> None:
    """What an overview looks at, without a story."""
    source.each([prompt], ALL, _Overview(prompt, ()).visit)


def story(source: ModelSource, prompt: Prompt) -> None:
    """The same with the story."""
    deciding = deciding_rows(prompt)
    overview = _Overview(prompt, deciding)
    experiment = source.experiment(prompt, deciding, look=Look(ALL, overview.visit))
    assert experiment.visited
    assert tell(experiment, prompt, overview.summaries) is not None


class _Overview:
    """Collects the summaries of an overview."""

    def __init__(self, prompt: Prompt, deciding: tuple[int, ...]) -> None:
        self.kinds = HeadKindsReducer(KindTexts([prompt.tokens]))
        self.deciding = [DecidingRowsReducer(deciding)] if deciding else []
        self.summaries: list[Summary] = []

    def visit(self, call: Call) -> None:
        """Look at one call."""
        more = [HeadStatistics(), self.kinds, ReceivedShares(), PooledMatrix(60, 60), *self.deciding]
        self.summaries.append(with_one_head(reduce(call, *more)))
