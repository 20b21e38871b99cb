"""The models that Hugging Face's cache holds, read without changing it and without asking the hub."""

from difflib import get_close_matches
from pathlib import Path

from huggingface_hub import CacheNotFound, constants, scan_cache_dir, try_to_load_from_cache

from attn_cli.text import listed


def cached_models() -> tuple[str, dict[str, int], int]:
    """The folder of the hub's cache on this machine, the bytes of its models by name, and how many are broken."""
    folder = str(constants.HF_HUB_CACHE)
    try:
        cache = scan_cache_dir(folder)
    except CacheNotFound:
        return folder, {}, 0
    except (OSError, ValueError):  # a folder that can't be read; a file in its place
        return folder, {}, 1
    models = {repo.repo_id: repo.size_on_disk for repo in cache.repos if repo.repo_type == "model"}
    return folder, dict(sorted(models.items())), len(cache.warnings)


def cached_file(name: str, revision: str | None, file: str) -> Path | None:
    """A file of a model on the hub, at `revision` or main, that is in the cache; else None."""
    path = try_to_load_from_cache(name, file, cache_dir=constants.HF_HUB_CACHE, revision=revision)
    return Path(path) if isinstance(path, str) else None


def commit_of(name: str, revision: str | None = None) -> str | None:
    """The commit of a model on the hub, at `revision` or main, whose configuration is in the cache; else None."""
    path = cached_file(name, revision, "config.json")
    return None if path is None else path.parent.name


def cached_names() -> list[str]:
    """The names of the models in the cache, by its folders alone, which is quick."""
    folders = Path(constants.HF_HUB_CACHE).glob("models--*")
    return sorted(folder.name.removeprefix("models--").replace("--", "/") for folder in folders)


def suggest_cached(name: str) -> str:
    """A hint for a model that isn't in the cache: the one with the most similar name, or those that are there."""
    names = cached_names()
    if not names:
        return "nothing is cached"
    known = {form.lower(): cached for cached in names for form in (cached.rpartition("/")[2], cached)}
    near = [*get_close_matches(name.lower(), known, 1), *get_close_matches(name.rpartition("/")[2].lower(), known, 1)]
    return f"{f'did you mean {known[near[0]]}? ' if near else ''}cached: {listed(names)}"
