"""Property tests have no deadline: what a busy machine does to a clock says nothing about the code. Nothing is left under /tmp."""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("calm", deadline=None)
settings.load_profile("calm")


@pytest.fixture(autouse=True)
def _sockets_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh's control sockets lie in the runtime folder: each test run has one of its own."""
    folder: Path = tmp_path_factory.getbasetemp() / "run"
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
