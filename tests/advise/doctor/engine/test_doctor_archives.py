"""What logs come packed in: unpacked on the way, read as far as they can be, refused where they are a trap."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import tarfile
import threading
import zipfile
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.advise.doctor import diagnose_logs
from jumar.advise.doctor.entries.store import built_in_errors
from jumar.advise.doctor.logs.engine import spread
from jumar.advise.doctor.logs.engine.folders import LogFile
from jumar.advise.doctor.logs.engine.packed import streams
from jumar.base.errors import InputError

TABLE = built_in_errors()
LINE = "RuntimeError: call failed, error code is 507018\n"
_draw = random.Random(0)
FILLER = "".join(f"2024-11-28 11:50:00,123 INFO step {_draw.random()}\n" for _ in range(9_999))
LOG = (FILLER + LINE).encode()
PACKERS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pyarrow.compress(data, codec="zstd", asbytes=True),
}


def tar_of(**members: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name.replace("__", "/"))
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()


def zip_of(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/"), data)
    return file.getvalue()


def read(tmp_path: Path, name: str, data: bytes):
    (tmp_path / name).write_bytes(data)
    return diagnose_logs([tmp_path / name])


@pytest.mark.parametrize("ending", PACKERS)
def test_a_packed_log_reads_as_the_log(tmp_path, ending):
    diagnosis = read(tmp_path, f"a.log.{ending}", PACKERS[ending](LOG))
    assert [incident.lead.line for incident in diagnosis.incidents] == [10_000]
    assert diagnosis.files[0].size_bytes == len(LOG)
    assert diagnosis.notes == ()


@pytest.mark.parametrize("ending", PACKERS)
def test_two_packed_logs_in_one_file_are_both_read(tmp_path, ending):
    data = PACKERS[ending](LOG)
    assert read(tmp_path, f"a.log.{ending}", data + data).files[0].num_lines == 20_000


@pytest.mark.parametrize("ending", PACKERS)
def test_of_a_cut_file_is_read_what_is_there_and_the_rest_is_told(tmp_path, ending):
    log = LINE.encode() + "".join(f"{_draw.random()}\n" for _ in range(100_000)).encode()
    data = PACKERS[ending](log)
    diagnosis = read(tmp_path, f"a.log.{ending}", data[: len(data) * 2 // 3])
    assert diagnosis.incidents[0].lead.line == 1
    assert len(log) // 4 < diagnosis.files[0].size_bytes < len(log)
    assert "was read up to where it cannot be read" in diagnosis.notes[0]


@given(st.sampled_from(sorted(PACKERS)), st.integers(0, 10**6), st.binary(min_size=1, max_size=20))
def test_no_damage_ends_in_a_traceback(tmp_path_factory, ending, at, damage):
    data = bytearray(PACKERS[ending](tar_of(a=FILLER[:9000].encode(), b__c=LINE.encode())))
    at %= len(data)
    data[at : at + len(damage)] = damage
    path = tmp_path_factory.mktemp("damaged") / f"a.log.tar.{ending}"
    path.write_bytes(data)
    reports = spread.scan_item(TABLE, LogFile(path=path))
    assert reports
    assert all(report.size_bytes or report.notes or report.num_lines == 0 for report in reports)


@pytest.mark.parametrize("packed", [tar_of, zip_of, lambda **members: gzip.compress(tar_of(**members))])
def test_members_of_an_archive_are_files_with_their_ranks(tmp_path, packed):
    data = packed(
        run__rank_3__train_log=b"fine\n", run__rank_4__a_log=LINE.encode(), run__model_bin=b"\x7fELF" + bytes(99)
    )
    diagnosis = read(tmp_path, "logs.tgz", data)
    assert [report.rank for report in diagnosis.files] == [3, 4]
    assert diagnosis.incidents[0].finding.where.path == str(tmp_path / "logs.tgz" / "run/rank_4/a_log")
    assert f"1 of the files in {tmp_path / 'logs.tgz'} not read: they are no text." in diagnosis.notes


def test_an_archive_in_an_archive_is_read_and_one_deeper_is_told(tmp_path):
    inner = zip_of(b_log=LINE.encode())
    assert len(read(tmp_path, "a.tar", tar_of(inner_zip=inner)).incidents) == 1
    diagnosis = read(tmp_path, "b.tar", tar_of(x_tar=tar_of(inner_zip=inner), c_log=b"fine\n"))
    assert diagnosis.incidents == ()
    assert "1 of the files in" in diagnosis.notes[0]


def test_long_names_of_tar_files_are_read(tmp_path):
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / "a.tar", "w", format=form) as archive:
            name = "d" * 90 + "/" + "e" * 90 + "/rank_12.log"
            entry = tarfile.TarInfo(name)
            entry.size = len(LINE)
            archive.addfile(entry, io.BytesIO(LINE.encode()))
        (report,) = diagnose_logs([tmp_path / "a.tar"]).files
        assert (report.path, report.rank) == (tmp_path / "a.tar" / name, 12)


@pytest.mark.parametrize("packed", [tar_of, zip_of])
def test_of_a_cut_archive_the_members_before_the_cut_count(tmp_path, packed):
    data = packed(a_log=LINE.encode(), b_log=_draw.randbytes(4000), c_log=b"fine\n" * 1000)
    diagnosis = read(tmp_path, "a.tar", data[:3000])
    assert diagnosis.incidents[0].lead.path == tmp_path / "a.tar" / "a_log"
    assert any("cannot be read" in note for note in diagnosis.notes)


def test_names_of_members_stay_below_their_archive(tmp_path):
    data = tar_of(**{"..__..__etc__passwd": LINE.encode(), "__root__a\nb": LINE.encode()})
    paths = [report.path for report in read(tmp_path, "a.tar", data).files]
    assert paths == [tmp_path / "a.tar" / "etc/passwd", tmp_path / "a.tar" / "root/a\\nb"]


@pytest.mark.parametrize("ending", PACKERS)
def test_a_bomb_is_left_where_it_grows_beyond_any_log(tmp_path, ending, monkeypatch):
    monkeypatch.setattr(streams, "SPARE_BYTES", 10**6)
    monkeypatch.setattr(streams, "SPARE_FACTOR", 2)
    diagnosis = read(tmp_path, f"a.log.{ending}", PACKERS[ending](LINE.encode() + b"0" * 2 * 10**7))
    assert diagnosis.files[0].size_bytes < 10**7
    assert "which no log does" in diagnosis.notes[0]
    assert len(diagnosis.incidents) == 1


def test_a_zip_file_with_members_over_each_other_is_refused(tmp_path):
    data = bytearray(zip_of(a_log=LINE.encode() * 99, b_log=LINE.encode() * 99))
    second = data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = bytes(4)  # where the second member begins
    with pytest.raises(InputError, match="lie over each other"):
        read(tmp_path, "a.zip", bytes(data))


def test_a_member_with_a_password_is_told(tmp_path):
    data = bytearray(zip_of(a_log=LINE.encode(), b_log=LINE.encode()))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    diagnosis = read(tmp_path, "a.zip", bytes(data))
    assert len(diagnosis.incidents) == 1
    assert any("password" in note for note in diagnosis.notes)


def test_a_log_in_utf_16_reads_as_the_log(tmp_path):
    for encoding in ("utf-16", "utf-16-be"):
        data = ("\ufeff" if encoding != "utf-16" else "") + LOG.decode()
        assert read(tmp_path, "a.log", data.encode(encoding)).incidents[0].lead.line == 10_000


def test_a_named_pipe_is_read_to_its_end(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(gzip.compress(LOG)))
    writer.start()
    assert diagnose_logs([tmp_path / "pipe"]).files[0].num_lines == 10_000
    writer.join()


def test_stdin_is_read_by_a_dash(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LOG)))
    (report,) = diagnose_logs(["-"]).files
    assert (str(report.path), report.num_lines, len(report.hits)) == ("stdin", 10_000, 1)


def test_a_device_without_bytes_is_empty():
    assert diagnose_logs(["/dev/null"]).notes == ("/dev/null is empty.",)
