"""What attn takes from torch and transformers beyond their public interfaces, in one place.

Each entry says what it is for, and what happens where it is gone; `tests/sources/huggingface/test_compat.py` has a test
of each. A new release of torch or transformers is read here first.
"""

import sys
from collections.abc import Callable
from typing import Any

import transformers
from packaging.version import Version

TRANSFORMERS: str = transformers.__version__
TESTED_TRANSFORMERS = "5.23.0"  # as in tests/constraints.txt


def is_newer_than_tested() -> bool:
    """Whether transformers is newer than the release that attn is tested with."""
    return Version(TRANSFORMERS) > Version(TESTED_TRANSFORMERS)


def eager_function(module_class: type) -> Callable[..., Any] | None:
    """The eager attention function of an attention class, which stands in the class's Python module.

    What it doesn't name among its arguments it ignores. Without it every option that attn doesn't know is refused, and
    nothing is compared on newer releases.
    """
    function: Callable[..., Any] | None = getattr(
        sys.modules.get(module_class.__module__), "eager_attention_forward", None
    )
    return function
