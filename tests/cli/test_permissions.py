"""Files and folders that belong to somebody else."""

from pathlib import Path

import pytest

from attn_cli.errors import ExitCode
from tests.nobody import as_nobody, root_alone
from tests.program import refused


@root_alone
@pytest.mark.parametrize("mode", [0o700, 0o711, 0o744], ids=oct)
def test_a_model_folder_that_may_not_be_listed_is_the_folder(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    folder.chmod(mode)
    done = as_nobody("layers", "-m", folder, reaching=tmp_path)
    refused(done, ExitCode.LOAD, f"{folder} can't be read: Permission denied\n      check")
