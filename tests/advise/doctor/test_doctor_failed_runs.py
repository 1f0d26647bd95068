"""What the doctor says under the failure of a run, and when it says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.advise.doctor.logs.uses.failed import cause_of_failure
from jumar.cli.commands.doctor.failed import plogs_of, tell_failed
from jumar.cli.main import main

HEAD = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    step()\n'
VENDOR = HEAD + "RuntimeError: Run:/usr1/x.cpp:280 NPU error, error code is 507018\n"


@pytest.fixture(autouse=True)
def no_device_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in this process names its device to child processes by a variable: those of other tests need none."""
    monkeypatch.setenv("JUMAR_DEVICE_PLAN", "")
    monkeypatch.delenv("JUMAR_DEVICE_PLAN")


def test_an_error_of_the_vendor_is_explained() -> None:
    incident = cause_of_failure([VENDOR])
    assert incident is not None
    assert "507018" in incident.finding.message
    assert incident.finding.action


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEAD + "KeyError: 'x'\n",
        HEAD + "AssertionError\n",
        HEAD + "jumar.base.errors.DeviceError: NPU error, error code is 507018\n",
    ],
)
def test_a_traceback_alone_and_jumars_own_errors_say_all_by_themselves(text: str) -> None:
    assert cause_of_failure([text]) is None


def test_the_cause_of_one_rank_is_found_among_the_others() -> None:
    incident = cause_of_failure([HEAD + "ValueError: x\n", VENDOR])
    assert incident is not None
    assert "507018" in incident.finding.message


def test_the_block_has_cause_and_next_action_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    tell_failed(VENDOR, is_emulated=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "jumar: the doctor (the emulated NPU says what the vendor's software says): " in err
    assert "jumar:   next: " in err


def test_a_wrong_entry_of_the_user_does_not_hide_the_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text("{")
    monkeypatch.setenv("JUMAR_DOCTOR_ENTRIES", str(tmp_path))
    tell_failed(VENDOR)
    assert "could not look at the failure" in capsys.readouterr().err


def test_plogs_of_these_processes_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "debug" / "plog"
    folder.mkdir(parents=True)
    for pid in (11, 12):
        (folder / f"plog-{pid}_2024.log").write_text("x")
    found = plogs_of([12], {"ASCEND_PROCESS_LOG_PATH": str(tmp_path)})
    assert [path.name for path in found] == ["plog-12_2024.log"]
    assert plogs_of([12], {}) == []


def test_a_script_that_fails_under_run_gets_the_block_and_keeps_its_exit_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "fails.py"
    script.write_text('print("hello")\nraise RuntimeError("NPU error, error code is 507018")\n')
    assert main(["run", str(script)]) == 1
    out, err = capfd.readouterr()
    assert out == "hello\n"
    assert err.index("RuntimeError: NPU error") < err.index("jumar: the doctor")


def test_a_script_that_ends_well_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "good.py"
    script.write_text('print("NPU error, error code is 507018")\n')
    monkeypatch.setattr("jumar.cli.commands.doctor.failed.tell_failed", lambda *_, **__: pytest.fail("looked"))
    assert main(["run", str(script)]) == 0
