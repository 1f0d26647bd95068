"""Programs that start the training in further processes: launchers and shell scripts. `run_processes` waits for one.

Each process of a launcher runs its script through `entry/rank.py`, as a script by itself runs. So do the Python
programs of a shell script: it finds commands in their names first on its PATH.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import Literal, NoReturn

from jumar.base.errors import OutputError, RecordingError
from jumar.base.files import write_text
from jumar.base.home import cache_folder
from jumar.base.process import children
from jumar.capture.plans.plan import STOP_ENVIRONMENT, RecordPlan
from jumar.capture.process.program import Program
from jumar.device import ActiveDevice
from jumar.recording import Recording, RunEnd

CHILD = "jumar.capture.process.child"
RANK = Path(__file__).absolute().parent / "entry" / "rank.py"
PYTHON = "JUMAR_PYTHON"
"""Environment variable that names the interpreter which the commands of a shell script run."""

_COMMANDS = ("python", "python3", "torchrun", "accelerate", "deepspeed")
_WRAPPER = (
    """\
#!/bin/sh
name=${0##*/}
case "$name" in
python*)
    case "$1" in
    "" | - | -c | -h | -i | -V | -VV | --*) exec "$JUMAR_PYTHON" "$@" ;;
    esac
    ;;
esac
exec "$JUMAR_PYTHON" -c "$JUMAR_CHILD" """
    + CHILD
    + """ "$name" "$@"
"""
)

_LAST_WORKS_S = 0.05


def command_of(program: Program) -> tuple[list[str], dict[str, str]]:
    """Return the command of a launcher or shell script, and the environment variables that it needs in addition.

    Raises OutputError where the commands for a shell script cannot be written.
    """
    if program.kind != "shell":
        return children.command(module=program.name, arguments=program.through(RANK)), {}
    path = os.pathsep.join([str(_wrappers()), os.environ.get("PATH", os.defpath)])
    code = children.command(module=CHILD)[2]
    return [*program.words], {"PATH": path, PYTHON: children.of_the_user([])[0], "JUMAR_CHILD": code}


def run_processes(
    program: Program, *, plan: RecordPlan | None, stop_after: int | None, device: ActiveDevice | None
) -> RunEnd:
    """Run a launcher or shell script and return how it ended; with a plan, as the recording says.

    The device that the environment asks for comes up in each process. Raises OutputError when the recording cannot be
    written there.
    """
    import subprocess

    command, variables = command_of(program)
    if plan is not None:
        variables |= prepared(plan, program, device).to_environment()
    if stop_after is not None:
        variables[STOP_ENVIRONMENT] = str(stop_after)
    started = time.monotonic()
    with subprocess.Popen(command, env=os.environ | variables) as process:
        is_interrupted = False
        while process.poll() is None:
            try:
                process.wait()
            except KeyboardInterrupt:  # the terminal has told the processes, too
                is_interrupted = True
    return _end(plan, process.returncode, time.monotonic() - started, is_interrupted=is_interrupted)


def prepared(plan: RecordPlan, program: Program, device: ActiveDevice | None) -> RecordPlan:
    """Make the recording's folder and return the plan for the processes. Raises OutputError."""
    from jumar.capture.session.settings import run_info
    from jumar.recording import RecordingWriter

    plan = replace(plan, out=str(Path(plan.out).absolute()), command=plan.command or program.words)
    RecordingWriter(Path(plan.out), run_info(plan, device), force=plan.force)
    return replace(plan, prepared=True)


def _end(plan: RecordPlan | None, code: int, wall_s: float, *, is_interrupted: bool) -> RunEnd:
    """Return the end that the recording tells, else what the exit code says."""
    try:
        told = Recording.open(plan.out).end() if plan is not None else None
    except RecordingError:
        told = None
    if told is not None:
        return told
    status: Literal["interrupted", "exited", "finished"] = "exited" if code else "finished"
    if is_interrupted:
        status = "interrupted"
    return RunEnd(rank=0, status=status, exit_code=code if code >= 0 else 128 - code, num_steps=0, wall_s=wall_s)


def _wrappers() -> Path:
    """Return the folder with the commands that a shell script is to find first. Raises OutputError."""
    cache = cache_folder()
    if cache is None:
        raise OutputError("a shell script needs a cache folder for its commands, and there is no home. Set HOME.")
    folder = cache / "jumar" / "commands"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _COMMANDS:
            place = folder / name
            if not place.is_file() or place.read_text("utf-8") != _WRAPPER:
                write_text(place, _WRAPPER)
            if not os.access(place, os.X_OK):
                place.chmod(0o755)
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror}. Set XDG_CACHE_HOME.") from error
    return folder


def must_be_started(program: Program) -> bool:
    """Return whether a program starts the training in other processes."""
    return program.kind == "shell" or bool(program.launcher)


def replace_process(program: Program, environ: Mapping[str, str]) -> NoReturn:
    """Become the launcher or shell script."""
    command, variables = command_of(program)
    become(command, {**environ, **variables})


def become(command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Become the process of a command."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(which(command[0]) or command[0], list(command), dict(environ))


def let_go() -> None:
    """Give the threads of Gloo a moment, in a process that is one of several ranks.

    Such a thread needs Python's lock to let go of a tensor. Where Python ends before, PyTorch (seen in 2.13, in 11 of
    80 runs of two ranks) aborts the process with "terminate called without an active exception".
    """
    is_rank = "RANK" in os.environ or multiprocessing.parent_process() is not None
    if is_rank and "torch.distributed.distributed_c10d" in sys.modules:
        time.sleep(_LAST_WORKS_S)
