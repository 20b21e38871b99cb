"""What an older transformers than the tested one can't do is skipped, with the reason and the release."""

import pytest
import transformers
from packaging.version import Version

from attn_cli.sources.huggingface.compat import TESTED_TRANSFORMERS

IS_OLDER = Version(transformers.__version__) < Version(TESTED_TRANSFORMERS)


def skip_on_older(reason: str) -> None:
    """Skip the rest of a test on such a release; no effect on the tested one and on newer ones."""
    if IS_OLDER:
        pytest.skip(f"transformers {transformers.__version__}: {reason}")
