"""The archive of `jumar doctor --bundle`: what is in it, what is cut, and that nothing private is in any byte of it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.advise.doctor import diagnose_logs
from jumar.advise.doctor.bundle import check_target, pack
from jumar.advise.doctor.bundle.cutting import Cut, cut, shortened
from jumar.advise.doctor.bundle.masking import Masker, Own
from jumar.advise.doctor.bundle.pack import Source
from jumar.base.errors import OutputError, UsageError

SECRETS = (
    "hunter2hunter2",
    "hf_abcdefghijABCDEFGHIJ0123456789abcd",
    "gpu-node-17",
    "zhangwei",
    "10.20.30.41",
    "AKIAIOSFODNN7EXAMPLE",
)
LOG = """\
hostname: gpu-node-17
user=zhangwei password=hunter2hunter2 token hf_abcdefghijABCDEFGHIJ0123456789abcd AKIAIOSFODNN7EXAMPLE
[rank3]: Traceback (most recent call last):
[rank3]:   File "/home/zhangwei/train.py", line 10, in <module>
[rank3]:     connect("10.20.30.41")
[rank3]: RuntimeError: call aclnnAdd failed, error code is 507018
"""


def members(path: Path) -> dict[str, bytes]:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(path) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive if one.isfile()}  # type: ignore[union-attr]


def run(tmp_path: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jumar", "doctor", *words]
    return subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **environ}, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The answers and archives of two runs over the same logs."""
    top = tmp_path_factory.mktemp("bundle")
    folder = top / "logs" / "zhangwei"
    (folder / "gpu-node-17").mkdir(parents=True)
    (folder / "gpu-node-17" / "rank3.log").write_text(LOG)
    (folder / "old.log.gz").write_bytes(gzip.compress(LOG.encode()))
    (folder / "data.log").write_bytes(b"\x7fELF" + bytes(range(256)) * 50)
    environ = {"MASTER_ADDR": "gpu-node-17", "HF_TOKEN": SECRETS[1]}
    told = run(top, "--bundle", "report.tar.gz", str(folder), "--json", **environ)
    said = run(top, "--bundle", "report.zip", str(folder), **environ)
    assert (told.returncode, said.returncode) == (0, 0), told.stderr + said.stderr
    return top, json.loads(told.stdout), said.stdout


@pytest.mark.parametrize("name", ["report.tar.gz", "report.zip"])
def test_nothing_planted_is_in_any_byte_of_any_member(packed, name):
    top, told, _ = packed
    held = members(top / name)
    for secret in SECRETS:
        assert not [member for member, data in held.items() if secret.encode() in data or secret in member], secret
    assert {one["name"] for one in told["contents"]} >= {"report.json", "report.txt", "machine/packages.txt"}
    assert told["masked"]["secret"] >= 6


def test_the_doctor_says_the_same_of_what_was_packed(packed, tmp_path):
    top, _, _ = packed
    data = next(data for name, data in members(top / "report.zip").items() if name.endswith("rank3.log"))
    (tmp_path / "before.log").write_text(LOG)
    (tmp_path / "after.log").write_bytes(data)
    before, after = (diagnose_logs([tmp_path / name]).findings for name in ("before.log", "after.log"))
    assert [(one.code, one.where.line, one.action) for one in before] == [
        (one.code, one.where.line, one.action) for one in after
    ]
    assert data.count(b"\n") == LOG.count("\n")


def test_the_report_holds_machine_and_logs_and_binary_files_are_named(packed):
    held = members(packed[0] / "report.tar.gz")
    report = json.loads(held["jumar-report/report.json"])
    assert report["logs"]["first"]["where"]["line"]
    assert "Python" in report["machine"]["facts"]
    manifest = held["jumar-report/MANIFEST.txt"].decode()
    assert "data.log was not read: it is no text" in manifest
    assert "Look through it before you send it" in manifest


def test_the_answer_asks_to_look_before_sending(packed):
    assert "Look through the archive before you send it." in packed[2]
    assert "masked" in packed[2]


def test_another_kind_of_file_and_one_that_exists_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"report\.rar"):
        check_target(tmp_path / "report.rar")
    (tmp_path / "report.zip").write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        check_target(tmp_path / "report.zip")
    assert run(tmp_path, "--bundle", "report.zip").returncode != 0
    assert (tmp_path / "report.zip").read_text() == "mine"


def test_the_archive_names_no_owner_and_no_time(tmp_path):
    for name in ("a.tar.gz", "b.tar.gz"):
        pack(tmp_path / name, [Source(name="x.log", what="log", lines=["a"])], Masker())
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        assert {(one.uname, one.uid, one.mtime) for one in archive} == {("", 0, 0)}


def test_names_that_lead_elsewhere_or_are_the_same_get_plain_names(tmp_path):
    sources = [
        Source(name=name, what="log", lines=["x"])
        for name in ("../../etc/x.log", "/etc/x.log", "etc/x.log", "a\\..\\b.log")
    ]
    bundle = pack(tmp_path / "a.zip", sources, Masker())
    assert [one.name for one in bundle.contents] == ["etc/x.log", "etc/x-2.log", "etc/x-3.log", "a/b.log"]


def test_after_a_failure_nothing_is_left(tmp_path):
    def lines():
        yield "a"
        raise OSError(5, "Input/output error")

    with pytest.raises(OutputError):
        pack(tmp_path / "a.zip", [Source(name="x.log", what="log", lines=lines())], Masker())
    assert list(tmp_path.iterdir()) == []


def test_a_name_in_the_last_text_is_masked_in_the_first(tmp_path):
    sources = [
        Source(name="a.log", what="log", lines=["started on gpubox9"]),
        Source(name="b.log", what="log", lines=["hostname=gpubox9"]),
    ]
    bundle = pack(tmp_path / "a.zip", sources, Masker(Own()))
    assert bundle.masked["name"] >= 2
    assert all(b"gpubox9" not in data for data in members(tmp_path / "a.zip").values())


@given(st.lists(st.text("ab", max_size=8), max_size=60), st.lists(st.integers(1, 60), max_size=3))
def test_a_small_log_is_whole_and_a_big_one_keeps_head_tail_and_errors(lines, errors):
    whole = Cut()
    assert list(cut(lines, whole, errors)) == lines
    assert (whole.num_lines, whole.left_out, whole.kept) == (len(lines), 0, [])
    told = Cut()
    kept = list(cut(lines, told, errors, head=20, tail=20))
    marks = [line for line in kept if line.startswith("[jumar:")]
    assert len(kept) - len(marks) + told.left_out == told.num_lines == len(lines)
    if told.left_out:
        assert sum(last - first + 1 for first, last in told.kept) == len(lines) - told.left_out
        assert len(marks) == len(told.kept) - 1


def test_a_big_log_keeps_the_lines_around_its_errors():
    lines = [f"line {number}" for number in range(1, 10_001)]
    told = Cut()
    kept = list(cut(lines, told, [5000], head=100, tail=100))
    assert "line 4800" in kept
    assert "line 5200" in kept
    assert "line 4799" not in kept
    assert any(line.startswith("[jumar: lines 5201 to 99") for line in kept)
    assert told.kept[1] == (4800, 5200)


def test_a_gigantic_line_is_cut_at_a_blank_so_that_no_secret_is_halved():
    line = "a " * 30_000 + "password=" + "x" * 1_000_000
    text = shortened(line)
    assert len(text) < 100_000
    assert "password" not in text
    assert shortened("x" * 1_000_000) == " [jumar: 1000000 characters are left out]"


def test_without_a_log_the_vendors_and_todays_are_packed(tmp_path):
    from jumar.advise.doctor.bundle.gather import found_logs

    plog = tmp_path / "ascend/log/debug/plog/plog-1_1.log"
    plog.parent.mkdir(parents=True)
    for path in (plog, tmp_path / "train.log", tmp_path / "old.log", tmp_path / "train.py", tmp_path / "logs.tar.gz"):
        path.write_text("x")
    os.utime(tmp_path / "old.log", (0, 0))
    notes: list[str] = []
    found = found_logs({"HOME": str(tmp_path)}, notes, folder=tmp_path)
    assert ({file.path.name for file in found}, notes) == ({"plog-1_1.log", "train.log"}, [])
    assert found_logs({"HOME": "/absent"}, notes, folder=tmp_path / "ascend") == []
    assert "is not here" in notes[0]
