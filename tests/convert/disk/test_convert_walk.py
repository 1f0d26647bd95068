"""Everything a folder can hold: links, pipes, sockets, huge and odd files; all copied or reported, none fatal."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from jumar.base.errors import InputError
from jumar.base.findings import Finding, Severity
from jumar.convert import Conversion, Failure, convert_files, convert_tree
from jumar.convert.disk import reading as reading_module
from jumar.convert.disk.walk import UNFINISHED, shown, walk
from jumar.convert.rules.api import tensor_cuda_method

CUDA = "import torch\nx.cuda()\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "a.py").write_text(CUDA)
    return folder


def notes(conversion: Conversion, code: str) -> dict[str | None, Finding]:
    return {finding.where.path: finding for finding in conversion.notes if finding.code == code}


def test_links_are_copied_as_links_and_judged_by_where_they_lead(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(CUDA)
    (root / "inside.py").symlink_to("pkg/a.py")
    (root / "folder").symlink_to("pkg", target_is_directory=True)
    (root / "out.py").symlink_to("../outside.py")
    (root / "absolute.py").symlink_to(root / "pkg" / "a.py")
    (root / "nowhere.py").symlink_to("missing.py")
    (root / "loop").symlink_to("loop")
    (root / "pkg" / "up").symlink_to("..", target_is_directory=True)
    conversion = convert_tree(root)
    assert [outcome.path for outcome in conversion.files] == ["pkg/a.py"]
    found = notes(conversion, "JM191")
    assert {path: finding.severity for path, finding in found.items() if path != "folder"} == {
        "out.py": Severity.WARNING,
        "absolute.py": Severity.WARNING,
        "nowhere.py": Severity.ADVICE,
        "loop": Severity.ADVICE,
    }
    assert found["folder"].evidence["num_links"] == 3
    conversion.write(tmp_path / "out")
    for name, target in [("inside.py", "pkg/a.py"), ("out.py", "../outside.py"), ("loop", "loop"), ("pkg/up", "..")]:
        assert (tmp_path / "out" / name).readlink() == Path(target)
    assert b".npu()" in (tmp_path / "out" / "inside.py").read_bytes()


def test_pipes_and_sockets_are_reported_and_never_opened(root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "pipe.py")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(root / "s"))
    server.close()
    conversion = convert_tree(root)
    assert set(notes(conversion, "JM190")) == {"pipe.py", "s"}
    conversion.write(tmp_path / "out")
    assert not (tmp_path / "out" / "pipe.py").exists()


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_cannot_be_read_is_reported_and_the_rest_is_converted(
    root: Path, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "locked").mkdir()
    (root / "locked" / "b.py").write_text(CUDA)
    (root / "c.py").write_text(CUDA)
    scandir, access = os.scandir, os.access

    def refuse(path: str | os.PathLike[str]) -> object:
        if what == "folder" and Path(path).name == "locked":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "access", lambda path, mode: access(path, mode) and Path(path).name != "c.py")
    conversion = convert_tree(root)
    missing = {"folder": {"locked", "c.py"}, "file": {"c.py"}}[what]
    found = notes(conversion, "JM190")
    assert set(found) == missing
    assert all(finding.severity is Severity.ERROR for finding in found.values())
    assert "pkg/a.py" in {outcome.path for outcome in conversion.changed}
    conversion.write(tmp_path / "out")
    assert not (tmp_path / "out" / "c.py").exists()


def test_a_file_that_vanishes_between_listing_and_reading_is_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "gone.py").write_text(CUDA)
    is_python = reading_module.is_python

    def vanish(path: str, data: bytes) -> bool:
        (root / "gone.py").unlink(missing_ok=True)
        return is_python(path, data)

    monkeypatch.setattr(reading_module, "is_python", vanish)
    conversion = convert_tree(root)
    assert set(notes(conversion, "JM190")) == {"gone.py"}
    assert [outcome.path for outcome in conversion.files] == ["pkg/a.py"]


def test_a_root_that_cannot_be_listed_is_an_input_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InputError, match="cannot be listed: Permission denied"):
        convert_tree(root)


def test_a_file_that_keeps_changing_is_converted_as_it_is_last_and_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, read = root / "pkg" / "a.py", os.fstat
    calls = []

    def writing(number: int) -> os.stat_result:
        calls.append(number)
        target.write_text(CUDA + "#" * len(calls))
        return read(number)

    monkeypatch.setattr(os, "fstat", writing)
    conversion = convert_tree(root)
    assert "changed each time" in notes(conversion, "JM190")["pkg/a.py"].message
    assert b".npu()" in conversion.files[0].after


def test_a_huge_source_is_copied_unread_and_reported(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_module, "MAX_BYTES", 1000)
    big = root / "big.py"
    with big.open("wb") as file:
        file.write(b"x.cuda()\n")
        file.truncate(50_000_000)  # sparse: reading it whole would show in memory, not on disk
    conversion = convert_tree(root)
    assert "47.7 MiB" in notes(conversion, "JM190")["big.py"].message
    assert conversion.others == ("big.py",)


def test_binary_files_are_not_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "weights.pth").write_bytes(b"\0cuda")
    (root / "data.unknown").write_bytes(b"\0cuda")
    opened: list[str] = []
    open_path = Path.open

    def watch(path: Path, *args: object, **kwargs: object) -> object:
        opened.append(path.name)
        return open_path(path, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", watch)
    conversion = convert_tree(root)
    assert conversion.others == ("data.unknown", "weights.pth")
    assert "weights.pth" not in opened


def test_a_python_file_with_null_bytes_is_copied_and_counted(root: Path, tmp_path: Path) -> None:
    (root / "null.py").write_bytes(b"x.cuda()\0\n")
    conversion = convert_tree(root)
    assert [failure.path for failure in conversion.failures] == ["null.py"]
    assert "JM115" in {finding.code for finding in conversion.failures[0].findings}
    conversion.write(tmp_path / "out")
    assert (tmp_path / "out" / "null.py").read_bytes() == b"x.cuda()\0\n"


@pytest.mark.parametrize("name", [b"odd\xff.py", b"new\nline.py", b"quote'\"\\.py", "中文.py".encode(), b" space .py"])
def test_any_file_name_survives_and_is_shown_as_printable_text(root: Path, tmp_path: Path, name: bytes) -> None:
    text = os.fsdecode(name)
    (root / text).write_text(CUDA)
    conversion = convert_tree(root)
    outcome = next(outcome for outcome in conversion.files if outcome.path == text)
    assert outcome.changed
    for finding in outcome.findings:
        assert finding.where.path == shown(text)
        assert shown(text).isprintable()
        shown(text).encode()
    conversion.write(tmp_path / "out")
    assert b".npu()" in (tmp_path / "out" / text).read_bytes()
    assert conversion.patch_bytes().count(b"diff --git") == 2


def test_names_that_differ_in_case_only_are_reported(root: Path) -> None:
    (root / "Model.py").write_text("")
    (root / "model.py").write_text("")
    assert "Model.py and model.py" in notes(convert_tree(root), "JM190")["Model.py"].message


def test_permission_bits_times_and_empty_folders_are_kept(root: Path, tmp_path: Path) -> None:
    (root / "empty" / "inner").mkdir(parents=True)
    (root / "shut").mkdir(mode=0o750)
    (root / "run").write_text("#!/usr/bin/env python3\nimport torch\nx.cuda()\n")
    (root / "run").chmod(0o751)
    (root / "plain.py").write_text("x = 1\n")
    (root / "data.csv").write_text("1")
    for name in ("plain.py", "data.csv"):
        os.utime(root / name, (1_000_000_000, 1_000_000_000))
    convert_tree(root).write(tmp_path / "out")
    out = tmp_path / "out"
    assert (out / "empty" / "inner").is_dir()
    assert stat.S_IMODE((out / "shut").stat().st_mode) == 0o750
    assert stat.S_IMODE((out / "run").stat().st_mode) == 0o751
    assert b".npu()" in (out / "run").read_bytes()
    assert [(out / name).stat().st_mtime for name in ("plain.py", "data.csv")] == [1_000_000_000] * 2


_LOG = "msFmkTranspltlog.txt"


def test_folders_without_sources_of_the_project_are_left_out(root: Path, tmp_path: Path) -> None:
    for name in (".git", "__pycache__", "venv", "env", "lib/site-packages", "conda", "old_msft", f".x{UNFINISHED}y"):
        (root / name).mkdir(parents=True)
        (root / name / "x.py").write_text(CUDA)
    (root / "env" / "pyvenv.cfg").write_text("")
    (root / "conda" / "conda-meta").mkdir()
    for name, mark in (("old_msft", "change_list.csv"), ("ported", ".jumar-port"), ("b/x_msft_multi", _LOG)):
        (root / name / "converted").mkdir(parents=True, exist_ok=True)
        (root / name / "converted" / "x.py").write_text(CUDA)
        (root / name / mark).write_text("")
    (root / "own_msft").mkdir()
    (root / "own_msft" / "y.py").write_text(CUDA)
    conversion = convert_tree(root)
    assert [outcome.path for outcome in conversion.files] == ["own_msft/y.py", "pkg/a.py"]
    left_out = {"venv", "env", "lib/site-packages", "conda", "old_msft", "ported", "b/x_msft_multi"}
    assert set(notes(conversion, "JM194")) == left_out


def test_a_gitignored_folder_is_converted_like_any_other(root: Path) -> None:
    (root / ".gitignore").write_text("pkg\n")
    conversion = convert_tree(root)
    assert [outcome.path for outcome in conversion.changed] == ["pkg/a.py"]
    assert conversion.others == (".gitignore",)


def test_excluded_files_folders_and_links_are_left_out_and_their_targets_stay(root: Path) -> None:
    (root / "b.py").write_text(CUDA)
    (root / "link.py").symlink_to("pkg/a.py")
    (root / "more").mkdir()
    conversion = convert_tree(root, exclude=[root / "b.py", root / "link.py", root / "more", root.parent / "elsewhere"])
    assert [outcome.path for outcome in conversion.files] == ["pkg/a.py"]
    assert (conversion.others, conversion.folders) == ((), ("pkg",))


def test_deeply_nested_folders_are_walked(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    deep = folder.joinpath(*["d"] * 200)
    deep.mkdir(parents=True)
    (deep / "a.py").write_text("")
    assert walk(folder).files == ["/".join(["d"] * 200) + "/a.py"]


def test_a_script_is_known_by_its_first_line_and_a_named_file_is_python(root: Path) -> None:
    (root / "train").write_text("#!/usr/bin/python\nimport torch\nx.cuda()\n")
    (root / "other").write_text("import torch\nx.cuda()\n")
    assert [outcome.path for outcome in convert_tree(root).changed] == ["pkg/a.py", "train"]
    assert [outcome.path for outcome in convert_tree(root / "other").changed] == ["other"]


def test_a_defect_in_a_rule_costs_one_file_and_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "bad.py").write_text(CUDA)
    find = tensor_cuda_method.find

    def broken(context):  # type: ignore[no-untyped-def]
        if context.source.path == "bad.py":
            raise KeyError("oh")
        return find(context)

    monkeypatch.setattr(tensor_cuda_method, "find", broken)
    conversion = convert_tree(root)
    (failure,) = conversion.failures
    assert isinstance(failure, Failure)
    assert (failure.path, failure.after) == ("bad.py", CUDA.encode())
    assert failure.findings[0].code == "JM193"
    assert "broken" in str(failure.findings[0].evidence["traceback"])
    assert [outcome.path for outcome in conversion.changed] == ["pkg/a.py"]


def test_files_of_every_kind_are_converted(root: Path) -> None:
    (root / "run.sh").write_text("CUDA_VISIBLE_DEVICES=1 python pkg/a.py\n")
    paths = [outcome.path for outcome in convert_tree(root).changed]
    assert paths == ["pkg/a.py", "run.sh"]
    (outcome,) = convert_files(root, [root / "run.sh"]).files
    assert b"ASCEND_RT_VISIBLE_DEVICES=1" in outcome.after
