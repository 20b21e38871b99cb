"""The models that Hugging Face's cache holds, read without changing it and without asking the hub."""

from typing import NamedTuple

from huggingface_hub import CacheNotFound, constants, scan_cache_dir


class ModelCache(NamedTuple):
    """The cache's folder, the bytes of every cached model by its name, and how many entries can't be read."""

    folder: str
    models: dict[str, int]
    broken: int = 0


def cached_models() -> ModelCache:
    """What is in the cache that HF_HUB_CACHE, HF_HOME or a default names; no models where there is no such folder."""
    folder = str(constants.HF_HUB_CACHE)
    try:
        cache = scan_cache_dir(folder)
    except CacheNotFound:
        return ModelCache(folder, {})
    except (OSError, ValueError):  # a folder that can't be read; a file in its place
        return ModelCache(folder, {}, broken=1)
    models = {repo.repo_id: repo.size_on_disk for repo in cache.repos if repo.repo_type == "model"}
    return ModelCache(folder, dict(sorted(models.items())), len(cache.warnings))
