"""A script that runs in a workspace sees the user's files and changes none of them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from jumar.capture.process.workspace import Workspace


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "project"
    (folder / "data" / "deep").mkdir(parents=True)
    (folder / "data" / "deep" / "a.txt").write_text("a")
    (folder / "checkpoint.pt").write_text("mine")
    (folder / "log.txt").write_text("line\n")
    (folder.parent / "shared.txt").write_text("shared")
    return folder


def snapshot(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def run_in(workspace: Workspace, project: Path, code: str) -> str:
    guard = f"from jumar.capture.process.workspace import install_guard; install_guard({str(workspace.root)!r})\n"
    result = subprocess.run(
        [sys.executable, "-c", guard + textwrap.dedent(code)],
        cwd=workspace.path(project),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_files_of_the_project_and_its_parents_are_seen(project: Path, tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path / "work", [project])
    assert run_in(workspace, project, "print(open('data/deep/a.txt').read(), open('../shared.txt').read())") == (
        "a shared\n"
    )


@pytest.mark.parametrize(
    "code",
    [
        "open('checkpoint.pt', 'w').write('new')",
        "open('log.txt', 'a').write('more')",
        "open('log.txt', 'r+').write('LINE')",
        "open('data/deep/a.txt', 'w').write('new')",
        "open('data/deep/b.txt', 'x').write('new')",
        "open('../shared.txt', 'w').write('new')",
        "import os; os.remove('log.txt')",
        "import os; os.remove('data/deep/a.txt')",
        "import os; os.rename('data/deep/a.txt', 'data/deep/b.txt')",
        "import os; os.makedirs('data/deep/new/er')",
        "import os; os.truncate('log.txt', 0)",
        "import shutil; shutil.copyfile('log.txt', 'checkpoint.pt')",
        "import shutil; shutil.rmtree('data/deep')",
        "import os; os.replace('log.txt', 'checkpoint.pt')",
        "import pathlib; pathlib.Path('data/deep/a.txt').write_bytes(b'x')",
        "import torch; torch.save([1], 'checkpoint.pt'); assert torch.load('checkpoint.pt') == [1]",
        "import torch; torch.save([1], 'data/deep/a.txt')",
        "import numpy; numpy.save('checkpoint.pt', numpy.ones(3))",
        "import os; os.close(os.open('checkpoint.pt', os.O_WRONLY | os.O_TRUNC))",
    ],
)
def test_no_write_reaches_the_users_files(code: str, project: Path, tmp_path: Path) -> None:
    before = snapshot(project.parent)
    workspace = Workspace.create(tmp_path / "work", [project])
    run_in(workspace, project, code)
    assert snapshot(project.parent) == before


def test_appending_keeps_the_content_that_was_there(project: Path, tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path / "work", [project])
    run_in(workspace, project, "open('log.txt', 'a').write('more')")
    assert (workspace.path(project) / "log.txt").read_text() == "line\nmore"


def test_put_replaces_a_file_in_the_mirror_only(project: Path, tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path / "work", [project])
    workspace.put(project / "data" / "deep" / "a.txt", b"converted")
    assert (workspace.path(project) / "data" / "deep" / "a.txt").read_text() == "converted"
    assert (project / "data" / "deep" / "a.txt").read_text() == "a"


def test_jumars_own_output_is_left_out(project: Path, tmp_path: Path) -> None:
    out = project / "jumar-port"
    out.mkdir()
    workspace = Workspace.create(out / "work", [project], leave_out=[out])
    assert not (workspace.path(project) / "jumar-port").exists()
    assert (workspace.path(project) / "log.txt").exists()


def test_the_folders_of_python_are_known_before_the_finder_that_asks_for_them_is_there(tmp_path: Path) -> None:
    code = """
import os, sys, sysconfig
from jumar.capture.process import project
get_path = sysconfig.get_path
def asked(name):
    assert not any(isinstance(finder, project.MirrorFinder) for finder in sys.meta_path), "asked too late"
    return get_path(name)
sysconfig.get_path = asked
project.watch_project({project.WORKSPACE: sys.argv[1], project.ENVIRONMENT: sys.argv[1] + "/log"})
print("watched")
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout == "watched\n", done.stderr[-800:]
