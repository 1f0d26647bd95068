"""Runs a user's script in this process as `python SCRIPT ARGS` would, observed."""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from pathlib import Path

from jumar.base.errors import ScriptError
from jumar.capture.claims import claim
from jumar.capture.plans.plan import STOP_ENVIRONMENT, RecordPlan
from jumar.capture.process.plugin import call_plugin
from jumar.capture.process.seeds import seed_generators
from jumar.capture.process.workspace import ENVIRONMENT as WORKSPACE
from jumar.device import ActiveDevice, DevicePlan
from jumar.recording import RunEnd

EXIT_RAISED, EXIT_INTERRUPTED = 1, 130


def run_script(
    script: Path,
    arguments: Sequence[str],
    *,
    plan: RecordPlan | None,
    stop_after: int | None,
    on_step: Callable[[int], None] | None = None,
) -> RunEnd:
    """Run `script` with these arguments in this process and return how it ended.

    The device that the environment asks for must be active. With a plan the run is recorded; child
    processes that the script starts (torchrun, spawn) record as further ranks. A script that raises
    has its traceback on stderr and in `RunEnd.error`, without Jumar's frames. With `stop_after` the
    run is ended cleanly after so many completed steps: its finally-blocks run. `on_step` is told the number of
    each recorded step, or of each step without a plan.

    Raises ScriptError when the script is not there or does not parse, OutputError when the
    recording cannot be written there.
    """
    code = read_script(script)
    claim()
    from jumar.capture.observe.observer import StopRun
    from jumar.capture.session.session import Session

    if plan is not None and not plan.command:
        plan = replace(plan, command=(str(script), *arguments))
    session = Session(plan, device=_active_device(), stop_after=stop_after, folder=_folder(script), on_step=on_step)
    with _as_python_would(script, arguments, plan, stop_after) as module:
        seed_generators(os.environ)
        call_plugin(os.environ)
        # NOTE: what is imported by now never becomes garbage. Without freezing it, the garbage collector walks
        # through PyTorch's 400,000 objects once in a few recorded steps, a tenth of a small step's time (measured).
        gc.collect()
        gc.freeze()
        session.start()
        try:
            exec(code, module.__dict__)
        except StopRun as stop:
            traceback.clear_frames(stop.__traceback__)  # lets go of the script's data loaders and their workers
            return session.end("stopped")
        except SystemExit as stop:
            if session.observer.was_stopped:  # a script's own handler has replaced StopRun
                return session.end("stopped")
            return session.end("exited", exit_code=_exit_code(stop))
        except KeyboardInterrupt:
            return session.end("interrupted", exit_code=EXIT_INTERRUPTED)
        except BaseException as error:  # noqa: BLE001 - whatever the script raises is reported as its own
            return _report(error, session)
        finally:
            gc.unfreeze()
        return session.end("finished")


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


@contextmanager
def _as_python_would(
    script: Path, arguments: Sequence[str], plan: RecordPlan | None, stop_after: int | None
) -> Iterator[types.ModuleType]:
    """Put the script's module, arguments and search path in place, and the plan where child processes find it."""
    path = str(script.absolute())
    module = types.ModuleType("__main__")
    loader = SourceFileLoader("__main__", path)
    module.__dict__.update(
        __file__=path, __builtins__=__builtins__, __loader__=loader, __cached__=None, __annotations__={}
    )
    before = sys.modules["__main__"], sys.argv, list(sys.path), dict(os.environ)
    sys.modules["__main__"] = module
    sys.argv = [str(script), *arguments]
    sys.path[0:1] = [str(_folder(script))]
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


def _folder(script: Path) -> Path:
    """Return the folder modules are imported from: the real one, as Python does, or the trial run's mirror of it."""
    mirrored = WORKSPACE in os.environ
    return script.absolute().parent if mirrored else script.resolve().parent


def _active_device() -> ActiveDevice | None:
    from jumar.device import activate

    plan = DevicePlan.from_environment(os.environ)
    return activate(plan) if plan is not None else None


def _exit_code(stop: SystemExit) -> int:
    """Return the code that Python would exit with; a message goes to stderr, as Python does it."""
    if stop.code is None or isinstance(stop.code, int):
        return int(stop.code or 0)
    sys.stderr.write(f"{stop.code}\n")
    return 1


def _report(error: BaseException, session: object) -> RunEnd:
    from jumar.capture.session.session import Session
    from jumar.capture.session.tracebacks import user_traceback

    assert isinstance(session, Session)
    text = user_traceback(error)
    sys.stderr.write(text)
    sys.stderr.flush()
    return session.end("raised", exit_code=EXIT_RAISED, error=text)
