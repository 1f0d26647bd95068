"""Runs a user's script or module in this process as `python` would, observed."""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import ScriptError
from jumar.capture.plans.claims import claim
from jumar.capture.plans.plan import STOP_ENVIRONMENT, RecordPlan
from jumar.capture.process.plugin import call_plugin
from jumar.capture.process.processes import must_be_started, run_processes
from jumar.capture.process.program import Program, module_file, of_script
from jumar.capture.process.seeds import seed_generators
from jumar.capture.process.workspace import ENVIRONMENT as WORKSPACE
from jumar.capture.profile.plan import ProfilePlan
from jumar.device import ActiveDevice, DevicePlan
from jumar.recording import RunEnd

if TYPE_CHECKING:
    from jumar.capture.profile.session import ProfileSession
    from jumar.capture.session.session import Session

EXIT_RAISED, EXIT_INTERRUPTED = 1, 130
FAILURES = "JUMAR_FAILURES"
"""Environment variable: the folder in which a launcher's ranks leave their tracebacks."""


def run_script(
    script: Path,
    arguments: Sequence[str],
    *,
    plan: RecordPlan | None,
    stop_after: int | None,
    on_step: Callable[[int], None] | None = None,
) -> RunEnd:
    """Run `script` with these arguments in this process, as `run_program` does."""
    return run_program(of_script(script, arguments), plan=plan, stop_after=stop_after, on_step=on_step)


def run_program(
    program: Program,
    *,
    plan: RecordPlan | None,
    stop_after: int | None,
    on_step: Callable[[int], None] | None = None,
) -> RunEnd:
    """Run a program and return how it ended: a script or module in this process, others in processes of their own.

    The device that the environment asks for must be active. With a plan the run is recorded, without one it is profiled
    as the environment asks; child
    processes that the script starts (torchrun, spawn) record as further ranks. A script that raises
    has its traceback on stderr and in `RunEnd.error`, without Jumar's frames. With `stop_after` the
    run is ended cleanly after so many completed steps: its finally-blocks run. `on_step` is told the number of
    each recorded step, or of each step without a plan; not of steps in other processes.

    Raises ScriptError when the script is not there or does not parse, OutputError when the
    recording cannot be written there.
    """
    if must_be_started(program):
        return run_processes(program, plan=plan, stop_after=stop_after, device=_active_device())
    return _run_here(program, plan, stop_after, on_step)


def _run_here(
    program: Program, plan: RecordPlan | None, stop_after: int | None, on_step: Callable[[int], None] | None
) -> RunEnd:
    entry = entry_of(program)
    claim()
    from jumar.capture.observe.observer import StopRun
    from jumar.capture.profile.session import ProfileSession
    from jumar.capture.session.session import Session

    if plan is not None and not plan.command:
        plan = replace(plan, command=program.words)
    profile = ProfilePlan.from_environment(os.environ) if plan is None else None
    session: Session | ProfileSession
    if profile is not None:
        session = ProfileSession(profile, device=_active_device(), on_step=on_step)
    else:
        session = Session(plan, device=_active_device(), stop_after=stop_after, folder=entry.folder, on_step=on_step)
    with as_python_would(entry, program.arguments, profile or plan, stop_after) as module:
        seed_generators(os.environ)
        call_plugin(os.environ)
        # NOTE: what is imported by now never becomes garbage. Without freezing it, the garbage collector walks
        # through PyTorch's 400,000 objects once in a few recorded steps, a tenth of a small step's time (measured).
        # A profile is to show the pauses that the program has by itself.
        if profile is None:
            gc.collect()
            gc.freeze()
        session.start()
        try:
            exec(entry.code, module.__dict__)
        except StopRun as stop:
            traceback.clear_frames(stop.__traceback__)  # lets go of the script's data loaders and their workers
            return session.end("stopped")
        except SystemExit as stop:
            if session.observer.was_stopped:  # a script's own handler has replaced StopRun
                return session.end("stopped")
            return session.end("exited", exit_code=exit_code_of(stop))
        except KeyboardInterrupt:
            return session.end("interrupted", exit_code=EXIT_INTERRUPTED)
        except BaseException as error:  # noqa: BLE001 - whatever the script raises is reported as its own
            return _report(error, session)
        finally:
            gc.unfreeze()
        return session.end("finished")


def check_entries(program: Program) -> None:
    """Raise ScriptError, before anything is started, where a file that the program starts with is missing or does not
    parse."""
    for entry in program.entries:
        read_script(entry)


def read_script(script: Path) -> types.CodeType:
    """Return the compiled script. Raises ScriptError when it is missing, a folder, or does not parse."""
    if script.is_dir():
        raise ScriptError(f"{script} is a folder. Name the script in it that starts the run.")
    if str(script).startswith("-") and not script.exists():
        raise ScriptError(
            f'"{script}" is neither an option of this command nor a script: see its --help; options of the script '
            "follow the name of the script."
        )
    try:
        with io.open_code(str(script.resolve())) as file:
            source = file.read()
    except OSError as error:
        raise ScriptError(f"{script} cannot be read: {error.strerror}. Check the name of the script.") from error
    try:
        return compile(source, str(script.absolute()), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ScriptError(f"{script} does not parse: {error.msg} in line {error.lineno}. Mend it first.") from error
    except ValueError as error:
        raise ScriptError(f"{script} is not Python source: {error}. Name the script that starts the run.") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What Python runs as `__main__`."""

    path: str
    """Whole path of the file."""
    shown: str
    """The first word of `sys.argv`."""
    folder: Path
    """The folder that comes first on the search path."""
    code: types.CodeType
    spec: ModuleSpec | None = None
    """Of a module that `-m` names."""


def entry_of(program: Program) -> Entry:
    """Return what Python would run as `__main__` for a script or module. Raises ScriptError as `read_script` does."""
    if program.kind == "script":
        script = Path(program.name)
        code = read_script(script)
        return Entry(path=str(script.absolute()), shown=program.name, folder=folder_of(script), code=code)
    path = str(module_file(program.name).absolute())
    if sys.path[:1] != [str(Path.cwd())]:
        sys.path.insert(0, str(Path.cwd()))  # the module's package is imported now, as `python -m` does
    spec = find_spec(program.name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{program.name}.__main__")
    return Entry(path=path, shown=path, folder=Path.cwd(), code=read_script(Path(path)), spec=spec)


@contextmanager
def as_python_would(
    entry: Entry, arguments: Sequence[str], plan: RecordPlan | ProfilePlan | None, stop_after: int | None
) -> Iterator[types.ModuleType]:
    """Put the script's module, arguments and search path in place, and the plan where child processes find it."""
    module = types.ModuleType("__main__")
    loader = SourceFileLoader("__main__", entry.path) if entry.spec is None else entry.spec.loader
    module.__dict__.update(
        __file__=entry.path, __builtins__=__builtins__, __loader__=loader, __cached__=None, __annotations__={}
    )
    if entry.spec is not None:
        module.__dict__.update(__spec__=entry.spec, __package__=entry.spec.parent)
    before = sys.modules["__main__"], sys.argv, list(sys.path), dict(os.environ)
    sys.modules["__main__"] = module
    sys.argv = [entry.shown, *arguments]
    # Where Python was told to put no folder first (PYTHONSAFEPATH), the first one is another's.
    sys.path[0 : 0 if getattr(sys.flags, "safe_path", False) else 1] = [str(entry.folder)]
    if plan is not None:
        out = str(Path(plan.out).absolute())
        os.environ.update(replace(plan, out=out, prepared=True).to_environment())
    if stop_after is not None:
        os.environ[STOP_ENVIRONMENT] = str(stop_after)
    try:
        yield module
    finally:
        sys.modules["__main__"], sys.argv = before[0], before[1]
        sys.path[:] = before[2]
        os.environ.clear()
        os.environ.update(before[3])


def folder_of(script: Path) -> Path:
    """Return the folder modules are imported from: the real one, as Python does, or the trial run's mirror of it."""
    mirrored = WORKSPACE in os.environ
    return script.absolute().parent if mirrored else script.resolve().parent


def _active_device() -> ActiveDevice | None:
    from jumar.device import activate

    plan = DevicePlan.from_environment(os.environ)
    return activate(plan) if plan is not None else None


def exit_code_of(stop: SystemExit) -> int:
    """Return the code that Python would exit with; a message goes to stderr, as Python does it."""
    if stop.code is None or isinstance(stop.code, int):
        return int(stop.code or 0)
    sys.stderr.write(f"{stop.code}\n")
    return 1


def _report(error: BaseException, session: Session | ProfileSession) -> RunEnd:
    from jumar.capture.session.tracebacks import user_traceback

    text = user_traceback(error)
    sys.stderr.write(text)
    sys.stderr.flush()
    _leave_for_the_doctor(text)
    return session.end("raised", exit_code=EXIT_RAISED, error=text)


def _leave_for_the_doctor(text: str) -> None:
    """Write the traceback of a launcher's rank where the command that started it looks, if it asked for it."""
    folder = os.environ.get(FAILURES)
    if folder:
        with suppress(OSError):  # the run is over; the traceback stands on stderr
            name = f"rank-{os.environ.get('RANK', '0')}-{os.getpid()}.log"
            (Path(folder) / name).write_text(text, "utf-8", "replace")
