"""Logs: tracebacks, times, ranks, incidents, and which error of which file came first."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path, PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.advise.doctor import diagnose_logs
from jumar.advise.doctor.logs.clock import rank_in, rank_of_path, time_in
from jumar.advise.doctor.logs.tracebacks import Streams, Traceback
from jumar.base.errors import InputError

KEY_ERROR = """Traceback (most recent call last):
  File "train.py", line 41, in <module>
    main()
  File "train.py", line 20, in main
    run(cfg["lr"])
        ~~~^^^^^^
  File "/usr/lib/python3.11/site-packages/box/box.py", line 5, in __getitem__
    raise KeyError(key)
KeyError: 'lr'
"""

SET_DEVICE = """Traceback (most recent call last):
  File "a.py", line 3, in <module>
    torch.npu.set_device(100)
RuntimeError: Initialize:build/torch_npu.dir/compiler_depend.ts:147 NPU function error: SetDevice, error code is 107001
[ERROR] 2025-08-06-16:15:27 (PID:2228607, Device:0, RankID:3) ERR00100 PTA call acl api failed
[Error]: Invalid device ID.
        Check whether the device ID is valid.
EE1001: [PID: 2228607] 2025-08-06-16:15:27.377.593 The argument is invalid.Reason: Set device failed
"""

EI0002 = """[Error]: The execution of the internal task times out.
EI0002: [PID: 7277] 2024-11-28-11:59:30.645.648 The wait execution of the Notify register times out.
"""


def write(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        (tmp_path / f"{name}.log").write_text(text)
    return tmp_path


def messages(path: Path) -> list[str]:
    return [finding.message for finding in diagnose_logs([path]).findings]


# --- times and ranks


@pytest.mark.parametrize(
    ("line", "time"),
    [
        ("[ERROR] GE(1,p):2022-04-06-07:15:09.383.996 [x.cc:1]2", datetime(2022, 4, 6, 7, 15, 9, 383996)),
        ("[ERROR] 2024-03-07-01:31:48 (PID:1, Device:0, RankID:-1) ERR00002", datetime(2024, 3, 7, 1, 31, 48)),
        ("2024-11-28 11:59:30,645 INFO", datetime(2024, 11, 28, 11, 59, 30, 645000)),
        ("2024-11-28T11:59:30.645Z", datetime(2024, 11, 28, 11, 59, 30, 645000)),
        ("[Thu Nov 28 11:56:34 2024] Out of memory", datetime(2024, 11, 28, 11, 56, 34)),
        ("Thu Nov  8 01:02:03 2024", datetime(2024, 11, 8, 1, 2, 3)),
        ("2024/11/28 11:59:30 [notice] x", datetime(2024, 11, 28, 11, 59, 30)),
        ("[2024-11-28, 11:59:30 UTC] {taskinstance.py:1824}", datetime(2024, 11, 28, 11, 59, 30)),
        ("11/28/2024 11:59:30 - INFO", datetime(2024, 11, 28, 11, 59, 30)),
        ("28/11/2024 11:59:30 no month", None),
        ("2024-13-28 11:59:30 no month", None),
        ("12024-11-28 11:59:30 digits before", None),
        ("step 2024 of 2025-1", None),
    ],
)
def test_times_are_read_as_the_vendor_and_python_print_them(line, time):
    assert time_in(line) == time


@given(st.datetimes(datetime(2000, 1, 1), datetime(2099, 12, 31)))
def test_a_plog_time_is_read_back(time):
    text = time.strftime("%Y-%m-%d-%H:%M:%S") + f".{time.microsecond // 1000:03}.{time.microsecond % 1000:03}"
    assert time_in(f"[INFO] RUNTIME(1,python):{text} [x]") == time


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("[rank3]: x", 3),
        ("[default12]:x", 12),
        ("(PID:1, Device:0, RankID:7) ERR", 7),
        ("RankID:-1", None),
        ("x", None),
    ],
)
def test_the_rank_of_a_line(line, rank):
    assert rank_in(line) == rank


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("logs/rank_3.log", 3),
        ("logs/train-rank0.log", 0),
        ("worker-2.log", 2),
        ("run/attempt_0/5/stderr.log", 5),
        ("logs/rank7/out.log", 7),
        ("logs/2024/out.log", None),
        ("frank3.log", None),
    ],
)
def test_the_rank_of_a_file(path, rank):
    assert rank_of_path(PurePath(path)) == rank


# --- tracebacks


def read(text: str) -> list[Traceback]:
    reader = Streams()
    found = (reader.feed(number, line) for number, line in enumerate(text.splitlines(), start=1))
    return [traceback for traceback in found if traceback is not None]


def test_a_traceback_names_the_deepest_line_of_ones_own():
    (found,) = read("before\n" + KEY_ERROR + "after\n")
    assert (found.exception, found.message, found.first_line, found.last_line) == ("KeyError", "'lr'", 2, 10)
    assert (found.file, found.line, found.function) == ("train.py", 20, "main")


@pytest.mark.parametrize("prefix", ["[rank1]: ", "[default1]:", ""])
def test_the_launchers_prefix_is_no_part_of_it(prefix):
    (found,) = read("".join(prefix + line + "\n" for line in KEY_ERROR.splitlines()))
    assert (found.exception, found.line) == ("KeyError", 20)


@pytest.mark.parametrize(
    "between",
    [
        "\nDuring handling of the above exception, another exception occurred:\n\n",
        "\nThe above exception was the direct cause of the following exception:\n\n",
    ],
)
def test_of_a_chain_the_first_counts(between):
    second = KEY_ERROR.replace("KeyError: 'lr'", "RuntimeError: cleaning up failed")
    assert [found.exception for found in read(KEY_ERROR + between + second)] == ["KeyError"]


def test_two_tracebacks_one_after_the_other_both_count():
    assert len(read(KEY_ERROR + "\nretrying\n" + KEY_ERROR)) == 2


@pytest.mark.parametrize("text", ["Traceback (most recent call last):\n", KEY_ERROR[:200], "KeyError: 'x'\n"])
def test_a_traceback_that_does_not_end_is_none(text):
    assert read(text) == []


@given(st.text(st.sampled_from("TKE: '\n\"()[]x\t\r\0é"), max_size=200))
def test_no_text_breaks_the_reader(text):
    assert isinstance(read(text), list)


# --- files


def test_missing_files_and_folders_without_logs_are_one_sentence(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        diagnose_logs([tmp_path / "no.log"])
    (tmp_path / "train.py").write_text("")
    with pytest.raises(InputError, match="must hold logs"):
        diagnose_logs([tmp_path])


def test_an_empty_log_is_noted(tmp_path):
    diagnosis = diagnose_logs([write(tmp_path, a="")])
    assert (diagnosis.first, diagnosis.notes) == (None, (f"{tmp_path / 'a.log'} is empty.",))


def test_bytes_that_are_no_text_do_not_stop_it(tmp_path):
    (tmp_path / "a.log").write_bytes(b"\xff\xfe\0\x80" + SET_DEVICE.encode() + b"\0" * 100)
    assert len(messages(tmp_path)) == 1


# --- incidents


def test_one_failure_is_one_incident_named_after_its_most_telling_line(tmp_path):
    diagnosis = diagnose_logs([write(tmp_path, a=SET_DEVICE)])
    (incident,) = diagnosis.incidents
    finding = incident.finding
    assert (finding.code, finding.message) == ("JM850", "The device number does not exist (107001).")
    assert (finding.where.line, finding.where.rank) == (4, 3)
    assert finding.evidence["raised_at"] == "a.py:3"
    assert finding.evidence["also"] == [
        "The NPU could not be initialised.",
        "A call of torch_npu into CANN failed (ERR00100).",
        "A call into the runtime got an invalid argument (EE1001).",
    ]
    assert finding.evidence["time"] == "2025-08-06 16:15:27"


def test_the_same_failure_again_is_counted_and_not_listed_again(tmp_path):
    diagnosis = diagnose_logs([write(tmp_path, a=SET_DEVICE * 50)])
    assert [incident.lead.count for incident in diagnosis.incidents] == [50]


def test_an_unknown_exception_is_reported_with_its_place(tmp_path):
    (finding,) = diagnose_logs([write(tmp_path, a="x\n" + KEY_ERROR)]).findings
    assert (finding.code, finding.message, finding.where.line) == ("JM851", "KeyError: 'lr'.", 10)
    assert finding.action == "Look at train.py:20 (in main)."


def test_an_unlisted_code_and_a_bare_plog_line_are_reported_where_nothing_else_is(tmp_path):
    plog = "[ERROR] RUNTIME(12,python3):2021-02-02-22:23:56.475.679 [x.cc:1]12 Strange: failed\n"
    assert [finding.code for finding in diagnose_logs([write(tmp_path, a="EX1234: new\n")]).findings] == ["JM852"]
    (finding,) = diagnose_logs([write(tmp_path, a=plog * 3)]).findings
    assert (finding.code, finding.evidence["count"]) == ("JM852", 3)
    known = plog + "x\n" * 100 + SET_DEVICE
    assert [finding.code for finding in diagnose_logs([write(tmp_path, a=known)]).findings] == ["JM850"]


def test_a_warning_is_no_error(tmp_path):
    line = "CAUTION: 'aten::x' is not currently supported on the NPU backend and will fall back to run on the CPU."
    diagnosis = diagnose_logs([write(tmp_path, a=line)])
    assert diagnosis.first is None
    assert [finding.severity.label for finding in diagnosis.findings] == ["warning"]


def test_a_collectives_code_below_an_exception_tells_that_it_is_a_consequence(tmp_path):
    text = KEY_ERROR.replace("KeyError: 'lr'", "RuntimeError: ACL stream synchronize failed") + EI0002
    (finding,) = diagnose_logs([write(tmp_path, a=text)]).findings
    assert finding.message == "A collective waited too long for another rank (EI0002)."
    assert "look for an earlier error in the logs of the other ranks" in finding.why


def test_a_shutdown_line_after_an_exception_does_not_hide_it(tmp_path):
    (finding,) = diagnose_logs([write(tmp_path, a=KEY_ERROR + "Error in atexit._run_exitfuncs:\n")]).findings
    assert finding.message == "KeyError: 'lr'."


def test_ranks_in_one_file_are_kept_apart(tmp_path):
    other = KEY_ERROR.replace("'lr'", "'wd'")
    pairs = zip(KEY_ERROR.splitlines(), other.splitlines(), strict=True)
    text = "".join(f"[rank0]: {left}\n[rank1]: {right}\n" for left, right in pairs)
    findings = diagnose_logs([write(tmp_path, a=text)]).findings
    assert [(finding.message, finding.where.rank) for finding in findings] == [
        ("KeyError: 'lr'.", 0),
        ("KeyError: 'wd'.", 1),
    ]


# --- order over files


def test_the_earliest_error_over_all_ranks_comes_first(tmp_path):
    early = "2024-11-28 11:50:00,000 step 1\n" + KEY_ERROR + "2024-11-28 11:56:34,000 bye\n"
    diagnosis = diagnose_logs([write(tmp_path, rank0="2024-11-28 11:50:00,000 step 1\n" + EI0002, rank1=early)])
    assert diagnosis.first is not None
    assert (diagnosis.first.finding.message, diagnosis.first.finding.where.rank) == ("KeyError: 'lr'.", 1)
    assert [incident.role for incident in diagnosis.incidents] == ["symptom", "consequence"]
    assert "clocks" in diagnosis.notes[0]


def test_the_order_of_the_arguments_does_not_matter(tmp_path):
    write(tmp_path, a=SET_DEVICE.replace("2025-08-06", "2025-08-07"), b=SET_DEVICE, c=EI0002)
    paths = [tmp_path / f"{name}.log" for name in "abc"]
    orders = [paths, paths[::-1], [paths[1], paths[0], paths[2]]]
    assert [[item.lead.path.stem for item in diagnose_logs(order).incidents] for order in orders] == [
        ["c", "b", "a"]
    ] * 3


def test_an_error_without_a_time_comes_before_a_mere_consequence_and_is_noted(tmp_path):
    diagnosis = diagnose_logs([write(tmp_path, a=EI0002, b=KEY_ERROR)])
    assert diagnosis.first is not None
    assert diagnosis.first.finding.message == "KeyError: 'lr'."
    assert diagnosis.notes == (
        "No times are printed in b.log: errors there cannot be put in order with those of other files.",
    )


def test_an_error_without_a_time_comes_after_a_cause_with_one(tmp_path):
    diagnosis = diagnose_logs([write(tmp_path, a=SET_DEVICE, b=KEY_ERROR)])
    assert [item.lead.path.stem for item in diagnosis.incidents] == ["a", "b"]


def test_errors_are_found_wherever_they_lie_in_a_large_file(tmp_path):
    filler = "2024-11-28 11:50:00,123 INFO step loss 0.5\n" * 60_000
    (tmp_path / "a.log").write_text(filler + SET_DEVICE + filler + KEY_ERROR)
    diagnosis = diagnose_logs([tmp_path / "a.log"])
    assert [finding.where.line for finding in diagnosis.findings] == [120_017, 60_004]
    (report,) = diagnosis.files
    assert (report.num_lines, report.size_bytes) == (120_017, (tmp_path / "a.log").stat().st_size)
