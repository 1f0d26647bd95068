"""`tell_failed`: the doctor's words under the failure of a run that Jumar started."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from jumar.capture.process.program import Program
    from jumar.recording import RunEnd


def with_doctor(program: Program, run: Callable[[], RunEnd]) -> RunEnd:
    """Run the program and return how it ended; print the doctor's words where it failed.

    The ranks of a launcher leave their tracebacks in a folder. stdout and stderr are not touched.
    """
    from jumar.capture.process.processes import must_be_started

    with _failures_of_ranks(must_be_started(program)) as folder:
        end = run()
        if end.status == "raised" or (end.status == "exited" and end.exit_code):
            tell_failed(end.error, folder, is_emulated=_is_emulated())
    return end


@contextmanager
def _failures_of_ranks(is_started: bool) -> Iterator[Path | None]:
    """Give the processes of a launcher a folder for their tracebacks, and yield it; None for a script of its own."""
    if not is_started:
        yield None
        return
    from jumar.capture.process.script import FAILURES

    with tempfile.TemporaryDirectory(prefix="jumar-failures-") as folder:
        os.environ[FAILURES] = folder
        try:
            yield Path(folder)
        finally:
            os.environ.pop(FAILURES, None)


def _is_emulated() -> bool:
    """Tell whether the run had the emulated NPU."""
    from jumar.device import DevicePlan
    from jumar.device.plan import is_torch_npu_installed

    plan = DevicePlan.from_environment(os.environ)
    return plan is not None and plan.kind == "npu" and not is_torch_npu_installed()


def tell_failed(
    error: str, folder: Path | None = None, *, logs: Sequence[Path] = (), is_emulated: bool = False
) -> None:
    """Print what the doctor knows of a failure beyond its traceback; nothing where it knows no more.

    `error` is the traceback of this process, `folder` holds those of the ranks, `logs` are files with the output.
    """
    from jumar.advise.doctor.logs.uses.failed import cause_of_failure
    from jumar.base.errors import JumarError
    from jumar.show.pages.doctor.failure import tell_cause

    files = sorted(folder.glob("*.log")) if folder is not None else []
    texts = [error, *(file.read_text("utf-8", "replace") for file in files)]
    pids = [os.getpid(), *(int(pid) for file in files if (pid := file.stem.rpartition("-")[2]).isdigit())]
    try:
        incident = cause_of_failure(texts, logs=[*logs, *plogs_of(pids, os.environ)])
    except JumarError as failure:  # an entry of the user is wrong: the failure of the run is the news
        click.echo(f"jumar: the doctor could not look at the failure: {failure}", err=True)
        return
    except Exception as defect:  # noqa: BLE001 - a defect of the doctor must not hide the exit code of the run
        click.echo(f"jumar: the doctor itself failed at this failure; please report it: {defect!r}", err=True)
        return
    if incident is not None:
        tell_cause(incident, is_emulated=is_emulated)


def plogs_of(pids: Sequence[int], environ: Mapping[str, str]) -> list[Path]:
    """Return the logs that CANN wrote for these processes."""
    home = environ.get("HOME")
    root = environ.get("ASCEND_PROCESS_LOG_PATH") or (f"{home}/ascend/log" if home else "")
    if not root:
        return []
    return sorted(path for pid in pids for path in Path(root).glob(f"debug/plog/plog-{pid}_*.log"))
