"""Tests of `jumar.base.outside.archives`: an archive writes into its folder, whatever its members are called."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.outside.archives import Member, UnsafeArchiveError, check_zip, of_zip, targets, write_member

ESCAPES = (
    "/abs", "//abs", "../up", "a/../../up", "a/..", "..", ".", "", "a//b", "a/./b", "a/", "C:/x", "C:x", "\\\\host\\x",
    "a\\..\\b", "a:stream", "NUL", "con.txt", "a/COM1", "lpt9.log", "ends.", "ends ", "a\0b", "a\nb", "\udc80",
    "a" * 256, "/".join(["a" * 200] * 30),
)  # fmt: skip


def files(*names: str) -> list[Member]:
    return [Member(name=name, size_bytes=1) for name in names]


@pytest.mark.parametrize("name", ESCAPES, ids=lambda name: ascii(name)[:30])
def test_a_name_that_leads_elsewhere_or_is_no_plain_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsafeArchiveError, match="its member"):
        targets(tmp_path, files(name), limit_bytes=10)


PARTS = st.sampled_from(
    ["", ".", "..", "/", "\\", "a", "b.txt", "C:", "nul", "é", "\0", " ", "~", "$HOME", "\u2025", "\uff0f"]
)


@given(st.lists(PARTS, min_size=1, max_size=6).map("/".join))
def test_what_is_not_refused_lies_in_the_folder(name: str) -> None:
    folder = Path("/tmp/folder-that-is-not-there").resolve()
    try:
        (target,) = targets(folder, files(name), limit_bytes=10).values()
    except UnsafeArchiveError:
        return
    assert folder in Path(os.path.normpath(target)).parents


@pytest.mark.parametrize(
    "names",
    [("a", "a"), ("a", "A"), ("é", "e\u0301"), ("a", "a/b"), ("a/b", "a"), ("a/B/c", "A/b"), ("straße", "STRASSE")],
)
def test_a_member_on_the_file_of_another_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(UnsafeArchiveError, match="has the name of another"):
        targets(tmp_path, files(*names), limit_bytes=10)


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path)
    with pytest.raises(UnsafeArchiveError, match="outside of its folder"):
        targets(tmp_path / "in", files("link/file"), limit_bytes=10)
    (tmp_path / "in" / "file").symlink_to(tmp_path / "target")
    with pytest.raises(FileExistsError):
        write_member(tmp_path / "in" / "file", b"content")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFDIR, stat.S_IFSOCK])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: int) -> None:
    entry = zipfile.ZipInfo("name")
    entry.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(entry, "/etc/passwd")
    with pytest.raises(UnsafeArchiveError, match="a folder, a link or a device"):
        check_zip(tmp_path / "a.zip")


def test_members_that_take_more_than_they_may_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafeArchiveError, match="more than the 100 bytes"):
        targets(tmp_path, [Member(name=name, size_bytes=40) for name in "abc"], limit_bytes=100)
    assert len(targets(tmp_path, [Member(name=name, size_bytes=40) for name in "ab"], limit_bytes=100)) == 2


def test_members_that_lie_over_each_other_or_beyond_the_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", b"x" * 100)
        archive.writestr("b", b"y" * 100)
    check_zip(path)
    with zipfile.ZipFile(path) as archive:
        first, second = archive.infolist()
        second.header_offset = first.header_offset
        with pytest.raises(UnsafeArchiveError, match="over each other"):
            of_zip(archive)
    with zipfile.ZipFile(path) as archive:
        archive.infolist()[1].compress_size = archive.infolist()[1].file_size = 1 << 40
        with pytest.raises(UnsafeArchiveError, match="beyond the end"):
            of_zip(archive)
    with zipfile.ZipFile(path) as archive:
        archive.infolist()[1].file_size = 1 << 40
        with pytest.raises(UnsafeArchiveError, match="two sizes"):
            of_zip(archive)


def test_what_is_written_is_the_users_alone(tmp_path: Path) -> None:
    target = targets(tmp_path, files("a/b/c.so"), limit_bytes=10)["a/b/c.so"]
    write_member(target, memoryview(b"code"))
    assert target.read_bytes() == b"code"
    assert target == tmp_path / "a" / "b" / "c.so"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
