"""A folder with one result of each kind, and the workbench over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from view_results import fill
from view_workbench import Workbench, served


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="session")
def workbench(results: Path) -> Iterator[Workbench]:
    yield from served(results)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Workbench]:
    """A workbench over an empty folder, which the test fills."""
    folder = tmp_path / "own"
    folder.mkdir()
    yield from served(folder)
