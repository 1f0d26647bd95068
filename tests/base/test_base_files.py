"""Files and folders are whole or absent, and a lock has one holder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.base import files
from jumar.base.errors import OutputError


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    files.write_text(path, "old")

    def fail(part: Path) -> None:
        part.write_text("ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write_atomically(path, fail)
    assert {entry.name: entry.read_text() for entry in tmp_path.iterdir()} == {"a.txt": "old"}


def test_the_bytes_are_on_the_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    path = tmp_path / "a"
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(path.exists()))
    files.write_bytes(path, b"x")
    assert synced == [False]
    files.write_bytes(path, b"y", durable=False)
    assert synced == [False]


def test_a_replaced_file_keeps_its_mode_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("a")
    path.chmod(0o750)
    files.write_bytes(path, b"b", keep_mode=True)
    assert (path.read_bytes(), path.stat().st_mode & 0o7777) == (b"b", 0o750)


def test_a_result_replaces_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "page.html"
    files.write_result(path, "one \udc80")
    with pytest.raises(OutputError, match="exists and is not replaced"):
        files.write_result(path, "two")
    files.write_result(path, "two", force=True)
    assert path.read_text() == "two"
    with pytest.raises(OutputError, match="must be a file to write to"):
        files.write_result(tmp_path, "three", force=True)


def test_what_the_system_says_becomes_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot be written \(.*\); choose a place"):
        files.write_result(tmp_path / "file" / "page.html", "")


def test_a_folder_appears_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with files.new_folder(path) as draft:
        (draft / "a").write_text("1")
        assert not path.exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    assert (path / "a").read_text() == "1"


def test_a_folder_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with files.new_folder(tmp_path / "out") as draft:
            (draft / "a").write_text("1")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_replaces_another_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.mkdir()
    (path / "old").write_text("")
    with pytest.raises(FileExistsError), files.new_folder(path):
        pass
    assert (path / "old").exists()
    with files.new_folder(path, replace=True) as draft:
        (draft / "new").write_text("")
    assert [entry.name for entry in path.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_locked_by_one_process_at_a_time(tmp_path: Path) -> None:
    handle = files.lock_folder(tmp_path)
    assert handle is not None
    code = f"import sys; from pathlib import Path; from jumar.base import files; sys.exit(files.lock_folder(Path({str(tmp_path)!r})) is None)"  # noqa: E501
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 1
    os.close(handle)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert files.lock_folder(tmp_path / "absent") is None


def test_what_is_appended_is_on_the_disk_though_the_system_takes_it_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, flushed = os.write, []
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:3]))
    monkeypatch.setattr(os, "fsync", flushed.append)
    with (tmp_path / "log").open("xb", buffering=0) as file:
        files.append(file.fileno(), b"one line\n")
        assert flushed == [file.fileno()]
    assert (tmp_path / "log").read_bytes() == b"one line\n"
