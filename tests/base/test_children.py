"""Tests of `jumar.base.process.children`: what a Python process of Jumar's imports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jumar.base.process import children


def planted(folder: Path, *names: str) -> Path:
    """Put modules into a folder that leave a file `NAME.ran` beside them when they are imported."""
    for name in names:
        (folder / f"{name}.py").write_text(f"open(__file__ + '.ran', 'w').close()\nraise ImportError({name!r})\n")
    return folder


def ran(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.ran"))


@pytest.mark.parametrize("how", [{"code": "import json, queue, sys; print(sys.argv[1:])"}, {"module": "this_one"}])
def test_a_child_imports_nothing_from_the_working_folder(tmp_path: Path, how: dict[str, str]) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "this_one.py").write_text("import json, queue, sys\nprint(sys.argv[1:])\n")
    here = planted(tmp_path, "json", "queue", "runpy", "sitecustomize", "encodings", "nt", "typing")
    command = children.command(**how, arguments=["--a", "b"])
    environment = {**os.environ, "PYTHONPATH": str(own)}
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "['--a', 'b']\n"
    assert ran(tmp_path) == []


def test_a_script_that_is_run_so_finds_what_python_would(tmp_path: Path) -> None:
    """The first folder is there to be replaced by the script's, and PYTHONPATH stays."""
    code = "import sys; print(sys.path[1] if not getattr(sys.flags, 'safe_path', 0) else sys.path[0])"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(children.command(code=code), env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(tmp_path)


def make_open(folder: Path) -> None:
    folder.chmod(0o777)


def make_parent_open(folder: Path) -> None:
    folder.parent.chmod(0o777)


def remove(folder: Path) -> None:
    folder.rmdir()


@pytest.mark.parametrize("change", [make_open, make_parent_open, remove])
def test_a_folder_that_others_can_write_to_is_not_imported_from(tmp_path: Path, change: Callable[[Path], None]) -> None:
    folder = tmp_path / "parent" / "folder"
    folder.mkdir(parents=True)
    assert children.trusted([str(folder)]) == [str(folder)]
    change(folder)
    assert children.trusted([str(folder)]) == []
    assert children.trusted(["/tmp"]) == []


def test_the_working_folder_is_imported_from_only_where_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for entry in ("", ".", str(tmp_path)):
        assert children.trusted([entry]) == []
    for named in (".", "", os.pathsep, "relative"):
        monkeypatch.setenv("PYTHONPATH", named)
        assert children.trusted(["", str(tmp_path)]) == []
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert children.trusted(["", str(tmp_path)]) == [str(tmp_path)]


def test_packages_that_are_installed_are_always_found() -> None:
    """Whatever the rights of a container's folders: without these nothing would run."""
    found = children.environment()["PYTHONPATH"].split(os.pathsep)
    folders = {str(Path(entry).absolute()) for entry in sys.path if "site-packages" in entry or entry.endswith("/src")}
    assert folders <= set(found)
