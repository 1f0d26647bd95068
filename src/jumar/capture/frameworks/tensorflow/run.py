"""Runs a TensorFlow program in this process as `python` would, with `npu_bridge` and `npu_device` on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.base.errors import OutputError, ScriptError
from jumar.capture.frameworks.choice import imports_of
from jumar.capture.frameworks.session import StopRun as StopRecording
from jumar.capture.plans.plan import RecordPlan
from jumar.capture.process.program import Program
from jumar.capture.process.script import EXIT_INTERRUPTED, EXIT_RAISED, as_python_would, entry_of, exit_code_of
from jumar.capture.session.ending import Status
from jumar.capture.session.tracebacks import user_frames, user_traceback
from jumar.recording import RunEnd

if TYPE_CHECKING:
    from jumar.capture.frameworks.tensorflow.session import TensorFlowSession

NOT_SHOWN = (
    "a chip's own numerics, fusion, private formats and memory: operators ran on the CPU in the dtypes of the program"
)


@dataclass
class TensorFlowEnd:
    """How a run ended."""

    status: str
    exit_code: int
    num_steps: int
    no_effect: list[str] = field(default_factory=list)
    not_shown: list[str] = field(default_factory=list)
    is_real: bool = False
    """Whether the vendor's own adapter is installed here, and was used."""
    recorded: RunEnd | None = None
    """How the recording ended, where there is one."""
    ended_at: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat())


def run_tensorflow(
    program: Program,
    *,
    stop_after: int | None,
    soc: str | None,
    plan: RecordPlan | None = None,
    on_step: Callable[[int], None] | None = None,
) -> TensorFlowEnd:
    """Run a script or module, and return how it ended and what of the NPU it asked in vain.

    A step is a run of a session that applies gradients, a batch of Keras' `fit`, or the call of a function or of an
    optimizer that applies gradients. With a plan the run is recorded. Raises ScriptError when the script
    is not there or does not parse, when a launcher is to start it, or where TensorFlow is not installed;
    OptionError, with the line, where the script sets an option that the adapter does not take; OutputError when the
    recording cannot be written there.
    """
    if program.launcher or program.kind == "shell":
        raise ScriptError(f"{program.title}: TensorFlow scripts are run as one process. Name the Python script itself.")
    entry = entry_of(program)
    try:
        import tensorflow  # noqa: F401 - before anything is wrapped, and to say where it is missing
    except ImportError as error:
        raise ScriptError(
            f"{program.name} needs TensorFlow, which cannot be imported here ({error}). "
            "Try scripts/framework_environment.py tensorflow, or run it where TensorFlow is installed."
        ) from error
    from jumar.capture.frameworks.tensorflow.tuning import Tuning, tuning_folder, tuning_mode
    from jumar.tfadapter.bridge.install import installed
    from jumar.tfadapter.bridge.state import STATE
    from jumar.tfadapter.bridge.watch import Watch, say_overflow

    tuning: list[Tuning] = []

    def first_step(*step: Any) -> None:
        if mode := tuning_mode(STATE.tunes):
            tuning.append(Tuning(mode, tuning_folder(STATE.work_path), STATE.aoe_config_file))
            tuning[0].take(*step)

    session = _session(program, plan, stop_after, entry.folder, on_step)
    watch = Watch(stop_after, on_step, first_step)
    # `import tensorflow` is to mean TensorFlow 1 where a file of the program imports npu_bridge.
    tops = {name.partition(".")[0] for _, names in imports_of(program) for name in names}
    outcome, recorded = _Outcome(), None
    with (
        installed(as_v1="npu_bridge" in tops, soc=soc) as is_real,
        as_python_would(entry, program.arguments, None, stop_after) as module,
    ):
        if not is_real and {"npu_bridge", "npu_device"} & tops:
            STATE.take_environment()
        if session is not None:
            session.start()
        elif not is_real:
            watch.start()
        try:
            outcome = _executed(entry.code, module, lambda: (session or watch).was_stopped)
        finally:
            watch.stop()
            if session is not None:
                recorded = session.end(outcome.status, exit_code=outcome.code, error=outcome.error)
    device = sys.modules.get("jumar.tfadapter.bridge.device")
    say_overflow([*watch.dumpers, *getattr(device, "DUMPERS", ())])
    uses_npu = bool(is_real or watch.used_npu or {"npu_bridge", "npu_device"} & set(sys.modules))
    shown = [NOT_SHOWN, *STATE.not_shown] if uses_npu and not is_real else []
    if not is_real and session is None and (mode := tuning_mode(STATE.tunes)):
        shown.append((tuning or [Tuning(mode, Path())])[0].finish())
    num_steps = session.step if session is not None else watch.num_steps
    no_effect = list(STATE.no_effect)
    return TensorFlowEnd(outcome.status, outcome.code, num_steps, no_effect, shown, is_real, recorded)


def _session(
    program: Program,
    plan: RecordPlan | None,
    stop_after: int | None,
    folder: Path | None,
    on_step: Callable[[int], None] | None,
) -> TensorFlowSession | None:
    """Return what records the run; None without a plan."""
    if plan is None:
        return None
    from jumar.capture.frameworks.tensorflow.session import TensorFlowSession

    told = plan if plan.command else replace(plan, command=program.words)
    return TensorFlowSession(told, stop_after=stop_after, folder=folder, on_step=on_step)


@dataclass(frozen=True)
class _Outcome:
    """How a program ended."""

    status: Status = "raised"
    code: int = EXIT_RAISED
    error: str = ""


def _executed(code: Any, module: Any, was_stopped: Callable[[], bool]) -> _Outcome:
    """Run a program and return how it ended. Raises OptionError, with its line, and OutputError."""
    from jumar.tfadapter.bridge.state import OptionError
    from jumar.tfadapter.bridge.watch import StopRun

    try:
        exec(code, module.__dict__)
    except (StopRun, StopRecording):
        return _Outcome("stopped", 0)
    except SystemExit as stop:
        return _Outcome("stopped", 0) if was_stopped() else _Outcome("exited", exit_code_of(stop))
    except KeyboardInterrupt:
        return _Outcome("interrupted", EXIT_INTERRUPTED)
    except OptionError as error:
        raise OptionError(f"{_place(error)}{error}") from error
    except OutputError:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever the script raises is reported as its own
        text = user_traceback(error)
        sys.stderr.write(text)
        return _Outcome("raised", EXIT_RAISED, text)
    return _Outcome("stopped" if was_stopped() else "finished", 0)


def _place(error: BaseException) -> str:
    """Return `file, line N: ` of the last line of the program's own in an error's traceback."""
    frames = [frame for frame in user_frames(error) if "site-packages" not in frame.filename]
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: " if frames else ""
