"""Which files of a folder are read, and that the others are told."""

from __future__ import annotations

import os

import pytest

from jumar.advise.doctor import diagnose_logs
from jumar.advise.doctor.logs.engine.folders import find_logs, is_log_name, log_files
from jumar.base.errors import InputError

LINE = "RuntimeError: call failed, error code is 507018\n"


LOGS = """
train.log train.log.1 train.log.2024-11-28 train.log-20241128 train.log.gz train.log.1.gz a.LOG a.txt slurm-123.out
slurm-123_4.out a.err stdout stderr stdout.log rank0-stderr plog-71_2024.log plog-71_2024.log.zst device-71_2024.log
device-0 events.jsonl events.jsonl.gz syslog syslog.1 messages messages-20241128 dmesg dmesg.0 nohup.out job.out.old
train_log.txt logs.tar.gz plog.tar run_log.zip
"""
OTHERS = """
core core.4711 core-python model.pt train.py data.bin requirements.txt CMakeLists.txt login.py catalog.json
weights.tar.gz data.zip a.log.png blog checkpoint events.out.tfevents.123.host
"""


@pytest.mark.parametrize("name", LOGS.split())
def test_such_names_are_those_of_logs(name):
    assert is_log_name(name)


@pytest.mark.parametrize("name", OTHERS.split())
def test_such_names_are_not(name):
    assert not is_log_name(name)


def test_what_a_folder_held_besides_is_counted(tmp_path):
    for name in ("a.log", "b.py", "c.py", "core.77", "LICENSE"):
        (tmp_path / name).write_text(LINE)
    os.mkfifo(tmp_path / "pipe.log")
    found = find_logs([tmp_path])
    assert [file.path.name for file in found.files] == ["a.log"]
    assert found.notes == (
        f"4 files were not read in {tmp_path}, by the name no log (2 .py, 1 without an ending, 1 .77). "
        "Name a file to have it read.",
        f"1 pipe, socket or device of {tmp_path} not read.",
    )
    assert find_logs([tmp_path / "b.py"]).files[0].path == tmp_path / "b.py"


def test_a_file_that_is_no_text_is_left_out_of_a_folder_and_read_when_named(tmp_path):
    (tmp_path / "a.log").write_bytes(b"\x7fELF\x02\x01" + bytes(100) + LINE.encode())
    (tmp_path / "b.log").write_bytes(bytes(9000) + LINE.encode())
    diagnosis = diagnose_logs([tmp_path])
    assert [report.path.name for report in diagnosis.files if report.hits] == ["b.log"]
    assert f"{tmp_path / 'a.log'} was not read: it is no text." in diagnosis.notes
    assert len(diagnose_logs([tmp_path / "a.log"]).incidents) == 1


def test_links_are_followed_once(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a.log").write_text(LINE)
    (tmp_path / "latest").symlink_to(tmp_path / "run", target_is_directory=True)
    (tmp_path / "run" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "same.log").symlink_to(tmp_path / "run" / "a.log")
    (tmp_path / "lost.log").symlink_to(tmp_path / "gone")
    assert len(log_files([tmp_path])) == 1
    assert len(log_files([tmp_path, tmp_path / "run" / "a.log"])) == 1


def test_a_file_that_may_not_be_read_is_told_and_the_others_count(tmp_path, monkeypatch):
    (tmp_path / "a.log").write_text(LINE)
    (tmp_path / "b.log").mkdir()
    (tmp_path / "b.log" / "c.log").write_text("fine\n")
    opened = type(tmp_path).open

    def refuse(path, *args, **kwargs):
        if path.name == "c.log":
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(type(tmp_path), "open", refuse)
    diagnosis = diagnose_logs([tmp_path])
    assert len(diagnosis.incidents) == 1
    assert f"{tmp_path / 'b.log/c.log'} cannot be read (Permission denied)." in diagnosis.notes
    with pytest.raises(InputError, match="Permission denied"):
        diagnose_logs([tmp_path / "b.log"])


def test_a_file_that_vanishes_meanwhile_is_told(tmp_path, monkeypatch):
    (tmp_path / "a.log").write_text(LINE)
    (tmp_path / "b.log").write_text(LINE)
    from jumar.advise.doctor.logs import diagnosis

    def find_and_remove(paths):
        found = find_logs(paths)
        (tmp_path / "b.log").unlink()
        return found

    monkeypatch.setattr(diagnosis, "find_logs", find_and_remove)
    assert any("b.log cannot be read (No such file" in note for note in diagnose_logs([tmp_path]).notes)


def test_what_is_not_there_or_holds_no_log_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        find_logs([tmp_path / "no.log"])
    (tmp_path / "train.py").write_text("")
    with pytest.raises(InputError, match="must hold logs"):
        find_logs([tmp_path])
