"""Of the errors of one failure the inner cause leads; failures of other writers are others; restarts are said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jumar.advise.doctor import diagnose_logs
from jumar.advise.doctor.entries import Table, parse_entries
from jumar.base.findings import Finding

TIME = "2025-04-29-18:46:11.501.863"
OWN = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'


def entry(name: str, kind: str, pattern: str, role: str, *, over: tuple[str, ...] = ()) -> dict[str, Any]:
    needle = {"needle": pattern} if kind == "message" else {}
    told = {"severity": "error", "title": name, "cause": f"It is {name}.", "action": f"Mend {name}.", "source": "s"}
    return (
        {"name": name, "kind": kind, "pattern": pattern, "role": role, "example": pattern, "over": over} | needle | told
    )


TABLE = Table(
    parse_entries(
        {
            "version": 1,
            "sources": {"s": "a document"},
            "errors": [
                entry("inner", "message", "does not has any binary", "cause"),
                entry("other-cause", "message", "the pump stopped", "cause"),
                entry("explaining", "message", "NumPy 2 is here", "cause", over=("code", "other-cause")),
                entry("symptom", "message", "the wheel came off", "symptom"),
                entry("consequence", "code", "EI0002", "consequence"),
                entry("farewell", "message", "bye at exit", "consequence"),
                entry("wrapper", "code", "EZ9999", "wrapper"),
                entry("code", "code", "EC0010", "cause"),
                entry("return", "return-code", "507018|ACL_ERROR_RT_AICPU_EXCEPTION", "cause"),
                entry("own-wrapper", "return-code", "500002", "wrapper"),
            ],
        }
    )
)


def findings(text: str, tmp_path: Path) -> list[Finding]:
    (tmp_path / "a.log").write_text(text)
    return list(diagnose_logs([tmp_path / "a.log"], table=TABLE).findings)


def leads(text: str, tmp_path: Path) -> list[str]:
    return [finding.message for finding in findings(text, tmp_path)]


@pytest.mark.parametrize(
    ("lines", "lead"),
    [
        (["EZ9999: Inner Error!", "op[X] does not has any binary"], "inner."),
        (["error code is 500002", "EZ9999: Inner Error!", "op[X] does not has any binary"], "inner."),
        (["EZ9999: Inner Error!", "the wheel came off"], "symptom."),
        (["EI0002: too long", "the wheel came off"], "symptom."),
        (["EZ9999: Inner Error!", "EI0002: too long"], "consequence (EI0002)."),
        (["the wheel came off", "the pump stopped"], "other-cause."),
        (["EC0010: no", "the pump stopped"], "other-cause."),
        (["error code is 507018", "EC0010: no"], "code (EC0010)."),
        (["the pump stopped", "does not has any binary"], "other-cause."),
        (["the pump stopped", "NumPy 2 is here"], "explaining."),
        (["EC0010: no", "the pump stopped", "NumPy 2 is here"], "explaining."),
        (["EX1234: new", "EZ9999: Inner Error!"], "The vendor's error EX1234, which Jumar's table does not have."),
        (["EZ9999: Inner Error!", "error code is 507018"], "return (507018)."),
        (["EZ9999: Inner Error!", "ACL_ERROR_RT_AICPU_EXCEPTION"], "return (ACL_ERROR_RT_AICPU_EXCEPTION)."),
    ],
)
def test_the_most_telling_error_leads(lines: list[str], lead: str, tmp_path: Path) -> None:
    assert leads("\n".join(lines) + "\n", tmp_path) == [lead]


@pytest.mark.parametrize(
    ("exception", "below", "lead"),
    [
        ("KeyError: 'lr'", "EI0002: too long", "KeyError: 'lr'."),
        ("KeyError: 'lr'", "bye at exit", "KeyError: 'lr'."),
        ("RuntimeError: shapes differ", "bye at exit", "RuntimeError: shapes differ."),
        ("RuntimeError: shapes differ", "EI0002: too long", "RuntimeError: shapes differ."),
        ("RuntimeError: ACL stream synchronize failed", "EI0002: too long", "consequence (EI0002)."),
        ("RuntimeError: NPU function error, error code is 507018", "EZ9999: Inner Error!", "return (507018)."),
        ("RuntimeError: The Inner error is reported as above (NPU)", "the wheel came off", "symptom."),
        ("ValueError: the NPU is away", "EZ9999: Inner Error!", "ValueError: the NPU is away."),
    ],
)
def test_an_exception_leads_unless_it_passes_on_what_stands_below(
    exception: str, below: str, lead: str, tmp_path: Path
) -> None:
    (finding,) = findings(f"{OWN}{exception}\n{below}\n", tmp_path)
    assert finding.message == lead
    assert finding.evidence["raised_at"] == "train.py:3"


def test_a_long_traceback_and_the_block_below_it_are_one_incident(tmp_path: Path) -> None:
    frames = "".join(f'  File "/usr/lib/python3.11/site-packages/x.py", line {at}, in f\n    f()\n' for at in range(90))
    text = (
        f"{OWN}{frames}RuntimeError: NPU function error, error code is 500002\n" + "\n" * 40 + "EZ9999: Inner Error!\n"
    )
    assert len(leads(text, tmp_path)) == 1


def test_errors_of_one_minute_are_one_incident_though_many_lines_lie_between(tmp_path: Path) -> None:
    between = "".join(f"[INFO] GE(1,p):{TIME} [x.cc:1]1 line {at}\n" for at in range(200))
    text = f"EZ9999: [PID: 1] {TIME} Inner\n{between}EC0010: [PID: 1] {TIME} no\n"
    assert leads(text, tmp_path) == ["code (EC0010)."]
    assert len(leads(text.replace(TIME, "no time"), tmp_path)) == 2


def test_errors_of_two_writers_are_two_incidents(tmp_path: Path) -> None:
    text = "(a pid=1) EZ9999: Inner Error!\n(b pid=2) EC0010: no\n(a pid=1) the wheel came off\n"
    told = findings(text, tmp_path)
    assert [(one.message, one.evidence["writer"]) for one in told] == [
        ("symptom.", "a pid=1"),
        ("code (EC0010).", "b pid=2"),
    ]


def test_a_line_without_a_writer_belongs_to_the_error_above_it(tmp_path: Path) -> None:
    assert leads("(a pid=1) EZ9999: Inner Error!\nEC0010: no\n", tmp_path) == ["code (EC0010)."]


def test_device_and_operator_are_evidence(tmp_path: Path) -> None:
    (finding,) = findings("call aclnnAddGetWorkspaceSize failed, device_id=0x3, error code is 507018\n", tmp_path)
    assert (finding.evidence["operator"], finding.evidence["device"]) == ("aclnnAdd", 3)


@pytest.mark.parametrize(
    "line",
    [
        "[default] Worker group FAILED. 3/3 attempts left; will restart worker group",
        "INFO: [default] Rendezvous complete for workers. Result: restart_count=1",
        "Back-off restarting failed container train in pod train-0",
        "train.service: Scheduled restart job, restart counter is at 1.",
    ],
)
def test_a_run_that_was_started_again_is_said(line: str, tmp_path: Path) -> None:
    text = f"EC0010: no\n{line}\nthe pump stopped\n"
    (tmp_path / "a.log").write_text(text)
    diagnosis = diagnose_logs([tmp_path / "a.log"], table=TABLE)
    again = [note for note in diagnosis.notes if "started again" in note]
    assert again == [
        f"The run was started again ({tmp_path / 'a.log'}:2): the first error is that of the first attempt."
    ]


def test_a_first_start_is_no_restart(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("Rendezvous complete for workers. Result: restart_count=0\nEC0010: no\n")
    assert diagnose_logs([tmp_path / "a.log"], table=TABLE).notes == ()


def test_attempts_in_folders_are_said(tmp_path: Path) -> None:
    for attempt in range(2):
        folder = tmp_path / f"attempt_{attempt}" / "0"
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text("EC0010: no\n")
    notes = diagnose_logs([tmp_path], table=TABLE).notes
    assert any("several attempts" in note for note in notes)


def test_words_count_where_only_a_consequence_is_known(tmp_path: Path) -> None:
    text = "slurmstepd: Detected 1 oom_kill event\n" + "step\n" * 70 + "EI0002: too long\n"
    assert [finding.code for finding in findings(text, tmp_path)] == ["JM853", "JM850"]


def test_all_ranks_of_one_file_that_print_an_error_are_evidence(tmp_path: Path) -> None:
    text = "".join(f"[rank{rank}]: EC0010: no\n" for rank in (0, 1, 2, 5))
    (finding,) = findings(text, tmp_path)
    assert (finding.where.rank, finding.evidence["ranks"], finding.evidence["count"]) == (0, "0-2,5", 4)
