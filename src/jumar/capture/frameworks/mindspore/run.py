"""Runs a MindSpore program in this process as `python` would, observed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace

from jumar.base.errors import ScriptError
from jumar.capture.frameworks.mindspore.context import Contexts
from jumar.capture.frameworks.mindspore.session import MindSporeSession
from jumar.capture.frameworks.session import StopRun
from jumar.capture.plans.plan import RecordPlan
from jumar.capture.process.program import Program
from jumar.capture.process.script import EXIT_INTERRUPTED, EXIT_RAISED, as_python_would, entry_of, exit_code_of
from jumar.capture.session.tracebacks import user_traceback
from jumar.recording import RunEnd


def run_mindspore(
    program: Program,
    *,
    plan: RecordPlan | None,
    stop_after: int | None,
    emulates: bool,
    on_step: Callable[[int], None] | None = None,
) -> tuple[RunEnd, Contexts]:
    """Run a script or module, and return how it ended and what it asked of its context.

    It runs in PyNative mode. With a plan it is recorded. With `emulates` a program that asks for Ascend gets operators
    that are rounded as there. With `stop_after` the run ends after so many steps. `on_step` is told the number of each
    recorded step, or of each step without a plan.

    Raises ScriptError when the script is not there or does not parse, when a launcher is to start it, or where
    MindSpore is not installed; OutputError when the recording cannot be written there.
    """
    if program.launcher or program.kind == "shell":
        raise ScriptError(f"{program.title}: MindSpore scripts are run as one process. Name the Python script itself.")
    entry = entry_of(program)
    try:
        import mindspore  # noqa: F401 - before anything is wrapped, and to say where it is missing
    except ImportError as error:
        raise ScriptError(
            f"{program.name} needs MindSpore, which cannot be imported here ({error}). "
            "Try scripts/framework_environment.py mindspore, or run it where MindSpore is installed."
        ) from error
    if plan is not None and not plan.command:
        plan = replace(plan, command=program.words)
    contexts = Contexts(emulates=emulates)
    session = MindSporeSession(plan, contexts=contexts, stop_after=stop_after, folder=entry.folder, on_step=on_step)
    before = os.environ.get("MS_JIT")
    with as_python_would(entry, program.arguments, plan, stop_after) as module:
        contexts.start()
        session.start()
        try:
            exec(entry.code, module.__dict__)
            end = session.end("stopped" if session.was_stopped else "finished")
        except StopRun:
            end = session.end("stopped")
        except SystemExit as stop:
            stopped = session.was_stopped
            end = session.end("stopped" if stopped else "exited", exit_code=0 if stopped else exit_code_of(stop))
        except KeyboardInterrupt:
            end = session.end("interrupted", exit_code=EXIT_INTERRUPTED)
        except BaseException as error:  # noqa: BLE001 - whatever the script raises is reported as its own
            text = user_traceback(error)
            sys.stderr.write(text)
            end = session.end("raised", exit_code=EXIT_RAISED, error=text)
        finally:
            contexts.stop()
    if before is None:
        os.environ.pop("MS_JIT", None)
    return end, contexts
