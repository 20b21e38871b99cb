"""A model with the compiled walk in its layers: heads and outputs are those of bands, for every kind of rule."""

import numpy as np
import pytest
import torch

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.kernel.cpu.library import is_built
from attn_cli.kernel.stats.wanted import Wanted
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.keys import ReceivedShares
from tests.sources.huggingface.models import KINDS, sentence, tiny
from tests.summaries.test_fused import FromBands

pytestmark = pytest.mark.skipif(not is_built(), reason="no C compiler was at hand when the package was installed")


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_every_kind_of_rule(kind: str) -> None:
    model = tiny(kind)
    inputs = sentence(model)
    pairs: list[tuple[Summary, Summary]] = []
    compiled_calls: list[bool] = []

    def visit(call: Call) -> None:
        in_bands = reduce(call, FromBands(HeadStatistics()), FromBands(ReceivedShares()))
        assert isinstance(call, AttentionCall)
        compiled_calls.append(call.compiled_stats(Wanted()) is not None)
        # Last, so that the model goes on with its output.
        pairs.append((reduce(call, HeadStatistics(), ReceivedShares()), in_bands))

    plain = model(**inputs)
    with capture(model, visit):
        captured = model(**inputs)
    torch.testing.assert_close(captured[0], plain[0], rtol=1e-4, atol=1e-4)
    assert any(compiled_calls)
    for compiled, in_bands in pairs:
        for one, other in zip(compiled.parts, in_bands.parts, strict=True):
            for name, values in other.arrays().items():
                np.testing.assert_allclose(one.arrays()[name], values, rtol=1e-4, atol=1e-4, err_msg=name)
