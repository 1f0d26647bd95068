"""Outputs appear whole or not at all; files in place are old or new, never between, and there is a way back."""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jumar.base.errors import InputError, OutputError
from jumar.convert import Conversion, Success, convert_tree
from jumar.convert.disk import in_place as in_place_module
from jumar.convert.disk.walk import UNFINISHED

CUDA = "import torch\nx.cuda()\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("a.py", "b.py", "c.py"):
        (folder / name).write_text(CUDA)
    (folder / "data.bin").write_bytes(b"\0" * 100)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def beside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.iterdir())


LIMITED = """
import resource, signal, sys
from pathlib import Path
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write beyond the limit fails like one on a full disk
from jumar.base.errors import OutputError
from jumar.convert import convert_tree
root, out, how = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
conversion = convert_tree(root, jobs=1)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    conversion.write(out) if how == "folder" else conversion.write_in_place(out)
except OutputError as error:
    print(error)
    sys.exit(2)
"""


@pytest.mark.parametrize("what", ["converted", "copied"])
def test_a_disk_that_fills_up_leaves_nothing_half_written(root: Path, tmp_path: Path, what: str) -> None:
    if what == "converted":
        (root / "big.py").write_text(CUDA * 200)
    else:
        (root / "z.bin").write_bytes(b"\1" * 5000)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(root), str(tmp_path / "out"), "folder"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert "File too large" in done.stdout
    assert beside(root) == ["project"]


def test_a_disk_that_fills_up_puts_every_file_in_place_back(root: Path, tmp_path: Path) -> None:
    (root / "d.py").write_text(CUDA * 100)  # its patch is larger than the limit, after three files were replaced
    before = contents(root)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(root), str(tmp_path / "p.patch"), "in place"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert "nothing was changed" in done.stdout
    assert contents(root) == before
    assert beside(root) == ["project"]


KILLED = """
import os, signal, sys
from pathlib import Path
from jumar.convert import convert_tree
from jumar.convert.disk import {module} as module
root, out = Path(sys.argv[1]), Path(sys.argv[2])
conversion = convert_tree(root, jobs=1)
count = 0
original = module.{function}
def dying(*args, **kwargs):
    global count
    count += 1
    if count == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*args, **kwargs)
module.{function} = dying
{call}
"""


def killed(root: Path, out: Path, **how: object) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(**how), str(root), str(out)], check=False, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize(("function", "at"), [("_copy_marks", 2), ("_put", 1)])
def test_a_killed_run_leaves_no_output_and_the_next_one_clears_up(
    root: Path, tmp_path: Path, function: str, at: int
) -> None:
    out = tmp_path / "out"
    killed(root, out, module="writing", function=function, at=at, call="conversion.write(out)")
    assert not out.exists()
    assert [UNFINISHED in name for name in beside(root)] == [True, False]
    convert_tree(root).write(out)
    assert beside(root) == ["out", "project"]


def test_an_output_that_a_killed_run_had_moved_away_comes_back(root: Path, tmp_path: Path) -> None:
    """The kill comes between the two renames that put a new folder in an old one's place."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("precious")
    killed(root, out, module="writing", function="Path.rename", at=2, call="conversion.write(out, force=True)")
    assert not out.exists()
    with pytest.raises(OutputError, match="exists already"):
        convert_tree(root).write(out)
    assert contents(out) == {"mine.txt": b"precious"}
    assert beside(root) == ["out", "project"]


def test_what_other_running_processes_or_hosts_write_is_left_alone(root: Path, tmp_path: Path) -> None:
    ours = tmp_path / f".out{UNFINISHED}{socket.gethostname()}-{os.getpid()}-1"
    others = tmp_path / f".out{UNFINISHED}elsewhere-1-1"
    similar = tmp_path / f".outer{UNFINISHED}{socket.gethostname()}-1-1"
    for folder in (ours, others, similar):
        folder.mkdir()
    convert_tree(root).write(tmp_path / "out")
    assert all(folder.exists() for folder in (ours, others, similar))


def test_read_only_folders_are_written_and_cleared(root: Path, tmp_path: Path) -> None:
    (root / "shut").mkdir()
    (root / "shut" / "a.py").write_text(CUDA)
    (root / "shut").chmod(0o555)
    conversion = convert_tree(root)
    conversion.write(tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out" / "shut").stat().st_mode) == 0o555
    broken = Conversion(root, conversion.files, ("missing",), conversion.folders)
    with pytest.raises(OutputError, match="missing"):
        broken.write(tmp_path / "second")
    assert beside(root) == ["out", "project"]
    for folder in (root / "shut", tmp_path / "out" / "shut"):
        folder.chmod(0o755)


def test_two_names_that_are_one_on_the_target_are_no_silent_loss(root: Path, tmp_path: Path) -> None:
    twice = (Success(path="a.py", before=b"", after=b"1"), Success(path="a.py", before=b"", after=b"2"))
    with pytest.raises(OutputError, match="File exists"):
        Conversion(root, twice).write(tmp_path / "out")
    with pytest.raises(OutputError, match="two names are one"):
        Conversion(root, twice[:1], ("a.py",)).write(tmp_path / "out")
    assert beside(root) == ["project"]


def test_an_output_folder_that_cannot_be_made_is_an_output_error(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        convert_tree(root).write(tmp_path / "file" / "out")


@pytest.mark.parametrize("out", ["project", "project/../project", "."])
def test_an_output_that_is_or_holds_the_input_is_refused(root: Path, tmp_path: Path, out: str) -> None:
    with pytest.raises(OutputError):
        convert_tree(root).write(tmp_path / out, force=True)
    assert contents(root)["a.py"] == CUDA.encode()


def test_an_output_inside_the_input_is_written_and_left_out_next_time(root: Path) -> None:
    out = root / "sub" / "project_msft"
    first = convert_tree(root, exclude=[out])
    first.write(out)
    (root / "sub" / f".project_msft{UNFINISHED}host-1-1").mkdir()
    again = convert_tree(root, exclude=[out])
    assert again.files == first.files
    again.write(out, force=True)
    assert b".npu()" in (out / "a.py").read_bytes()


# --- in place ------------------------------------------------------------------------------------------------------


def test_in_place_keeps_permission_bits_and_leaves_a_patch_that_leads_back(root: Path, tmp_path: Path) -> None:
    (root / "a.py").chmod(0o751)
    (root / "crlf.py").write_bytes(b"import torch\r\nx.cuda()")
    (root / "gbk.py").write_bytes("# coding: gbk\n# 设备\nimport torch\nx.cuda()\n".encode("gbk"))
    (root / "odd name.py").write_text(CUDA)
    (root / "quiet.py").write_text("x = 1\n")
    os.utime(root / "quiet.py", (1, 1))
    before = contents(root)
    conversion = convert_tree(root)
    patch = conversion.write_in_place(tmp_path / "keep" / "changes.patch")
    assert patch == tmp_path / "keep" / "changes.patch"
    assert contents(root) == {**before, **{outcome.path: outcome.after for outcome in conversion.changed}}
    assert len(conversion.changed) == 6
    assert stat.S_IMODE((root / "a.py").stat().st_mode) == 0o751
    assert (root / "quiet.py").stat().st_mtime == 1
    subprocess.run(["git", "apply", "-R", str(patch)], cwd=root, check=True)
    assert contents(root) == before


def test_an_older_patch_is_never_overwritten(root: Path, tmp_path: Path) -> None:
    patch = tmp_path / "changes.patch"
    names = []
    for _ in range(3):
        names.append(convert_tree(root).write_in_place(patch).name)
        (root / "a.py").write_text(CUDA)
    assert names == ["changes.patch", "changes.2.patch", "changes.3.patch"]
    assert patch.read_text().count("diff --git") == 3


def test_nothing_is_touched_when_a_file_changed_since_it_was_read(root: Path, tmp_path: Path) -> None:
    conversion = convert_tree(root)
    (root / "c.py").write_text("mine = 1\n")
    before = contents(root)
    with pytest.raises(InputError, match=r"c\.py\" changed since it was read; nothing was changed"):
        conversion.write_in_place(tmp_path / "p.patch")
    assert contents(root) == before
    assert beside(root) == ["project"]


@pytest.mark.parametrize("how", ["gone", "link"])
def test_nothing_is_touched_when_a_file_is_no_file_any_more(root: Path, tmp_path: Path, how: str) -> None:
    conversion = convert_tree(root)
    (root / "c.py").rename(tmp_path / "moved.py")
    if how == "link":
        (root / "c.py").symlink_to(tmp_path / "moved.py")
    with pytest.raises(InputError, match="nothing was changed"):
        conversion.write_in_place(tmp_path / "p.patch")
    assert (root / "a.py").read_text() == CUDA
    assert (tmp_path / "moved.py").read_text() == CUDA


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_was_replaced_comes_back_when_it_goes_wrong_midway(
    root: Path, tmp_path: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, replace = contents(root), in_place_module.write_bytes
    calls: list[Path] = []

    def failing(path: Path, data: bytes, **how: bool) -> None:
        calls.append(path)
        if len(calls) == 3:
            raise error
        replace(path, data, **how)

    monkeypatch.setattr(in_place_module, "write_bytes", failing)
    with pytest.raises(OutputError if isinstance(error, OSError) else KeyboardInterrupt):
        convert_tree(root).write_in_place(tmp_path / "p.patch")
    assert contents(root) == before
    assert [path.name for path in calls] == ["a.py", "b.py", "c.py", "b.py", "a.py"]
    assert beside(root) == ["project"]


def test_a_file_that_cannot_be_put_back_is_named_and_the_patch_stays(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = in_place_module.write_bytes
    calls: list[Path] = []

    def failing(path: Path, data: bytes, **how: bool) -> None:
        calls.append(path)
        if len(calls) >= 3:
            raise OSError(errno.EIO, "Input/output error")
        replace(path, data, **how)

    monkeypatch.setattr(in_place_module, "write_bytes", failing)
    with pytest.raises(OutputError, match=r"b\.py, a\.py could not be put back; apply the patch backwards"):
        convert_tree(root).write_in_place(tmp_path / "p.patch")
    assert (tmp_path / "p.patch").exists()


def test_a_killed_run_leaves_whole_files_and_a_patch_for_what_it_changed(root: Path, tmp_path: Path) -> None:
    before = contents(root)
    killed(
        root,
        tmp_path / "p.patch",
        module="in_place",
        function="write_bytes",
        at=3,
        call="conversion.write_in_place(out)",
    )
    after = contents(root)
    assert [b".npu()" in after[name] for name in ("a.py", "b.py", "c.py")] == [True, True, False]
    assert set(after) == set(before)
    patch = tmp_path / "p.patch"
    subprocess.run(["git", "apply", "-R", "--exclude=c.py", str(patch)], cwd=root, check=True)
    assert contents(root) == before


def test_a_patch_that_cannot_be_written_changes_nothing(root: Path, tmp_path: Path) -> None:
    before = contents(root)
    with pytest.raises(OutputError, match="nothing was changed"):
        convert_tree(root).write_in_place(root / "a.py" / "p.patch")
    assert contents(root) == before


def test_a_second_conversion_in_place_finds_nothing_to_do(root: Path, tmp_path: Path) -> None:
    convert_tree(root).write_in_place(tmp_path / "p.patch")
    before, start = contents(root), time.time_ns()
    again = convert_tree(root)
    assert again.changed == ()
    again.write_in_place(tmp_path / "p.patch")
    assert contents(root) == before
    assert all(path.stat().st_mtime_ns < start for path in root.iterdir())
