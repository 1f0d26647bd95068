"""A log that names an error never ends in Fine; one that does not is not accused."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from lines_of_logs import AT_MOST_WARNINGS, CLEAN, ERRORS

from jumar.advise.doctor import LogDiagnosis, diagnose_logs
from jumar.advise.doctor.entries.check import ordinary_lines
from jumar.advise.doctor.logs.lines.judgement import judged
from jumar.advise.doctor.logs.lines.prefixes import peeled
from jumar.base.findings import Severity
from jumar.cli.main import main
from jumar.show.blocks.page import Listing
from jumar.show.pages.doctor.logs import logs_page


def diagnosed(line: str, tmp_path: Path) -> LogDiagnosis:
    log = tmp_path / "train.log"
    log.write_text(f"step 1 loss 0.5\n{line}\nstep 2\n")
    return diagnose_logs([log])


@pytest.mark.parametrize("line", ERRORS)
def test_a_line_that_a_person_takes_for_an_error_is_one(line: str, tmp_path: Path) -> None:
    diagnosis = diagnosed(line, tmp_path)
    assert diagnosis.first is not None
    assert diagnosis.first.lead.line == 2
    assert logs_page(diagnosis).verdict.status == "failed"


@pytest.mark.parametrize("line", AT_MOST_WARNINGS)
def test_where_the_program_went_on_it_is_a_warning(line: str, tmp_path: Path) -> None:
    diagnosis = diagnosed(line, tmp_path)
    assert {finding.severity for finding in diagnosis.findings} == {Severity.WARNING}
    assert logs_page(diagnosis).verdict.status == "attention"


@pytest.mark.parametrize("line", [*CLEAN, *ordinary_lines()])
def test_tempting_words_are_no_alarm(line: str, tmp_path: Path) -> None:
    diagnosis = diagnosed(line, tmp_path)
    assert all(finding.severity <= Severity.ADVICE for finding in diagnosis.findings), diagnosis.findings
    verdict = logs_page(diagnosis).verdict
    assert "does not prove" in verdict.headline
    assert verdict.details == ["3 lines of 1 file read."]


def test_a_known_error_stands_alone(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        'worker failed\nTraceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: no\n'
    )
    assert [incident.finding.code for incident in diagnose_logs([log]).incidents] == ["JM851"]


def test_lines_that_differ_in_numbers_count_as_one(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"worker {number} failed\n" for number in range(50)))
    (incident,) = diagnose_logs([log]).incidents
    assert incident.lead.count == 50
    assert main(["doctor", str(log)]) == 1
    assert "Fine" not in capsys.readouterr().out


def test_the_lines_around_an_unlisted_error_are_shown(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"step {number}\n" for number in range(9)) + "the worker crashed\nbye\n")
    diagnosis = diagnose_logs([log])
    (incident,) = diagnosis.incidents
    assert incident.finding.code == "JM853"
    assert incident.finding.evidence["around"] == ["step 6", "step 7", "step 8", "the worker crashed", "bye"]
    shown = [
        block for section in logs_page(diagnosis).sections for block in section.blocks if isinstance(block, Listing)
    ]
    assert [block.text for block in shown] == ["step 6\nstep 7\nstep 8\nthe worker crashed\nbye"]


def test_lines_that_name_errors_beside_a_known_one_are_counted_in_a_note(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("widget: boom failed\n" + "step\n" * 30 + "EI0004: [PID: 1] The ranktable is invalid\n")
    diagnosis = diagnose_logs([log])
    assert [incident.finding.code for incident in diagnosis.incidents] == ["JM850"]
    assert diagnosis.notes == (
        f"1 more line names an error that Jumar does not know, the first at {log}:1: widget: boom failed",
    )


def test_nothing_read_is_not_fine(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("")
    assert logs_page(diagnose_logs([tmp_path])).verdict.status == "attention"


@pytest.mark.parametrize(
    "filling", [" ", ".", "=", "| ", "/", "a", "error ", "ERROR ", "failed: 0 ", "2024-01-01 10:00:00 "]
)
@pytest.mark.parametrize("head", ["", "ERROR "])
def test_a_gigantic_line_is_judged_in_a_moment(filling: str, head: str) -> None:
    line = head + filling * (2**16 // len(filling))
    start = time.process_time()
    judged(peeled(line))
    assert time.process_time() - start < 2  # seconds; 0.2 at most was measured


def test_an_error_in_the_middle_of_a_gigantic_line_is_seen() -> None:
    line = "x " * 2**16 + "Segmentation fault" + " y" * 2**16
    found = judged(peeled(line))
    assert found is not None
    assert found.severity is Severity.ERROR
