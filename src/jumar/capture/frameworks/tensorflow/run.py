"""Runs a TensorFlow program in this process as `python` would, with `npu_bridge` and `npu_device` on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from jumar.base.errors import OutputError, ScriptError
from jumar.capture.frameworks.choice import imports_of
from jumar.capture.process.program import Program
from jumar.capture.process.script import EXIT_INTERRUPTED, EXIT_RAISED, as_python_would, entry_of, exit_code_of
from jumar.capture.frameworks.session import StopRun as StopRecording
from jumar.capture.plans.plan import RecordPlan
from jumar.capture.session.ending import Status
from jumar.capture.session.tracebacks import user_frames, user_traceback
from jumar.recording import RunEnd

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
    from jumar.tfadapter.bridge.state import STATE, OptionError
    from jumar.tfadapter.bridge.watch import StopRun, Watch, say_overflow

    tuning: list[Tuning] = []

    def first_step(*step: Any) -> None:
        if mode := tuning_mode(STATE.tunes):
            tuning.append(Tuning(mode, tuning_folder(STATE.work_path), STATE.aoe_config_file))
            tuning[0].take(*step)

    session: TensorFlowSession | None = None
    if plan is not None:
        from jumar.capture.frameworks.tensorflow.session import TensorFlowSession

        told = plan if plan.command else replace(plan, command=program.words)
        session = TensorFlowSession(told, stop_after=stop_after, folder=entry.folder, on_step=on_step)
    watch = Watch(None if session else stop_after, None if session else on_step, None if session else first_step)
    # `import tensorflow` is to mean TensorFlow 1 where a file of the program imports npu_bridge.
    tops = {name.partition(".")[0] for _, names in imports_of(program) for name in names}
    status: Status = "finished"
    code, text, recorded = 0, "", None
    with (
        installed(as_v1="npu_bridge" in tops, soc=soc) as is_real,
        as_python_would(entry, program.arguments, None, stop_after) as module,
    ):
        if not is_real:
            if {"npu_bridge", "npu_device"} & tops:
                STATE.take_environment()
            if session is None:
                watch.start()
        if session is not None:
            session.start()
        try:
            exec(entry.code, module.__dict__)
        except (StopRun, StopRecording):
            status = "stopped"
        except SystemExit as stop:
            was_stopped = watch.was_stopped or (session is not None and session.was_stopped)
            status, code = ("stopped", 0) if was_stopped else ("exited", exit_code_of(stop))
        except KeyboardInterrupt:
            status, code = "interrupted", EXIT_INTERRUPTED
        except OptionError as error:
            raise OptionError(f"{_place(error)}{error}") from error
        except OutputError:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever the script raises is reported as its own
            text = user_traceback(error)
            sys.stderr.write(text)
            status, code = "raised", EXIT_RAISED
        finally:
            if session is None:
                watch.stop()
            else:
                recorded = session.end(status, exit_code=code, error=text)
    device = sys.modules.get("jumar.tfadapter.bridge.device")
    say_overflow([*watch.dumpers, *getattr(device, "DUMPERS", ())])
    uses_npu = bool(is_real or watch.used_npu or {"npu_bridge", "npu_device"} & set(sys.modules))
    shown = [NOT_SHOWN, *STATE.not_shown] if uses_npu and not is_real else []
    if not is_real and (mode := tuning_mode(STATE.tunes)):
        shown.append((tuning or [Tuning(mode, Path())])[0].finish())
    num_steps = session.step if session is not None else watch.num_steps
    return TensorFlowEnd(status, code, num_steps, list(STATE.no_effect), shown, is_real, recorded)


def _place(error: BaseException) -> str:
    """Return `file, line N: ` of the last line of the program's own in an error's traceback."""
    frames = [frame for frame in user_frames(error) if "site-packages" not in frame.filename]
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: " if frames else ""
