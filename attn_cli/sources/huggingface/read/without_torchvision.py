"""Processors of images and videos where nothing that reads videos is installed.

Without torchvision, transformers refuses to load the whole processor of a model that also takes videos, such as
Qwen2-VL, though its part for images needs Pillow alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers import FeatureExtractionMixin
from transformers.utils import is_torchvision_available

from attn_cli.sources.huggingface.compat import processor_parts

_PART = "video_processor"


class NoVideo(FeatureExtractionMixin):  # type: ignore[misc]
    """Replaces a processor's part for videos; never called, since no videos are read."""

    @classmethod
    def from_pretrained(cls, *_: Any, **__: Any) -> "NoVideo":
        """A new instance, whatever the arguments: there is nothing to load."""
        return cls()


@contextmanager
def without_videos() -> Iterator[None]:
    """Context manager: if torchvision is missing, processors load with `NoVideo` as their part for videos."""
    if is_torchvision_available():
        yield
        return
    loaders, kinds = processor_parts()
    before = loaders[_PART], kinds[_PART]
    loaders[_PART], kinds[_PART] = (__name__, NoVideo.__name__), FeatureExtractionMixin.__name__
    try:
        yield
    finally:
        loaders[_PART], kinds[_PART] = before
