"""Runs a user's script in a child process of its own, and follows it. Imports no torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

import jumar.base.errors
from jumar.base.errors import JumarError, OutputError, RecordingError
from jumar.base.process import children
from jumar.capture.plans.plan import STOP_ENVIRONMENT, RecordPlan
from jumar.capture.process.child import ERROR_ENVIRONMENT
from jumar.capture.process.program import Program, of_script
from jumar.capture.process.script import check_entries
from jumar.device import DevicePlan
from jumar.recording import Recording, RunEnd
from jumar.recording.schema import STEPS_FOLDER

POLL_S = 0.2
PATIENCE_S = 5.0
"""How long a stopped process group may take to end before the next, harder signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    """How a launched script ended."""

    returncode: int
    """The script's own exit code; negative for the signal that killed it."""
    end: RunEnd | None
    """How the rank ended that raised first, else the first rank; None without a recording, or when it was killed."""
    log: Path
    """What the script and its children wrote to stdout and stderr."""


def launch(
    script: Path | Program,
    arguments: Sequence[str] = (),
    *,
    device: DevicePlan,
    record: RecordPlan | None,
    stop_after: int | None,
    cwd: Path,
    log: Path,
    environment: Mapping[str, str] | None = None,
    on_progress: Callable[[int], None] | None = None,
    extra_path: Sequence[Path] = (),
    timeout_s: float | None = None,
) -> LaunchResult:
    """Run `script` with `arguments`, or another program, in a child process in the folder `cwd` and wait for it.

    stdout and stderr go to `log`; `on_progress` is told the number of recorded steps of rank 0 when
    it grows. `extra_path` folders come first on the child's module search path. On Ctrl-C, on any
    other exception here and after `timeout_s` seconds the whole process group is ended, gently
    first; a time-out then counts as the signal's return code.

    Raises ScriptError when the script cannot be run, OutputError when the log or the recording
    cannot be written, DeviceError when the device cannot be had.
    """
    program = script if isinstance(script, Program) else of_script(script, arguments)
    check_entries(program)
    if record is not None:
        record = replace(record, out=str(Path(record.out).absolute()))
    report = log.with_name(log.name + ".error")
    variables = dict(os.environ) | _variables(device, record, stop_after, extra_path) | dict(environment or {})
    variables[ERROR_ENVIRONMENT] = str(report.absolute())
    steps = Path(record.out) / STEPS_FOLDER if record is not None else None
    with _log_file(log) as output:
        process = subprocess.Popen(
            children.command(module="jumar.capture.process.child", arguments=_whole(program).words),
            cwd=cwd,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _follow(process, steps, on_progress, timeout_s)
        finally:
            _end_group(process)
    _raise_reported(report)
    return LaunchResult(returncode=process.returncode, end=_end_of(record), log=log)


def _whole(program: Program) -> Program:
    """Return the program with whole paths of its scripts: the child may run in another folder."""
    return program.with_entries(Path.absolute)


def _variables(
    device: DevicePlan, record: RecordPlan | None, stop_after: int | None, extra_path: Sequence[Path]
) -> dict[str, str]:
    variables = device.to_environment()
    if record is not None:
        variables |= record.to_environment()
    if stop_after is not None:
        variables[STOP_ENVIRONMENT] = str(stop_after)
    if extra_path:
        known = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        variables["PYTHONPATH"] = os.pathsep.join([*(str(path) for path in extra_path), *known])
    variables["PYTHONUNBUFFERED"] = "1"  # the log of a killed run then holds what it said
    return variables


@contextmanager
def _log_file(log: Path) -> Iterator[int]:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    except OSError as error:
        raise OutputError(f"the log {log} cannot be written: {error.strerror}. Choose another folder.") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _follow(
    process: subprocess.Popen[bytes],
    steps: Path | None,
    on_progress: Callable[[int], None] | None,
    timeout_s: float | None,
) -> None:
    """Wait for the child; tell its progress; return early when its time is over."""
    deadline = monotonic() + timeout_s if timeout_s is not None else None
    told = 0
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
        if steps is not None and on_progress is not None:
            done = sum(1 for _ in steps.glob("step-*-rank-0.parquet"))
            if done > told:
                told = done
                on_progress(done)
        if process.returncode is not None or (deadline is not None and monotonic() > deadline):
            return


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the child if it still runs, first with a KeyboardInterrupt, and what is left of its group."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_S)
    with suppress(ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _raise_reported(report: Path) -> None:
    """Raise the error that kept the child from running the script, if it left one."""
    try:
        data = json.loads(report.read_text("utf-8"))
    except OSError:
        return
    report.unlink()
    kind = getattr(jumar.base.errors, data["error"], JumarError)
    raise kind(data["message"])


def _end_of(record: RecordPlan | None) -> RunEnd | None:
    if record is None:
        return None
    try:
        return Recording.open(record.out).end()
    except RecordingError:
        return None
