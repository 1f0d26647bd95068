"""What a training or inference script computes, collected for tuning by running its first steps unchanged.

Job 1 takes its graphs (through the back end of `torch.compile`), job 2 its operators (through a recording).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import InputError
from jumar.tune.model.process import OwnFolder
from jumar.tune.search.tasks.extract import Selection
from jumar.tune.search.tasks.source import Source, graphs_source, open_source

if TYPE_CHECKING:
    from jumar.capture.plans.plan import RecordPlan
    from jumar.capture.process.launcher import LaunchResult
    from jumar.device import DevicePlan

JOB_GRAPHS = 1
COLLECT_ENVIRONMENT = "JUMAR_TUNE_COLLECT"
PLUGIN = "jumar.tune.backend.install:install"
LOG = "script.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRun:
    """A script to run, and how much of it."""

    script: Path
    arguments: Sequence[str] = ()
    steps: int = 1
    """Training steps (else outermost calls) after which it is ended."""
    device: DevicePlan | None = None
    """None: what the environment asks for (`JUMAR_DEVICE_PLAN`), else the CPU."""
    log: Path | None = None
    """Where its output goes; None: `script.log` in the folder that what it computes is written to."""
    limit_s: float | None = None
    """Seconds after which it is ended; None: as long as it takes."""


@contextmanager
def script_source(run: ScriptRun, job_type: int, *, selection: Selection | None = None) -> Iterator[Source]:
    """Run the script's first steps and yield what they computed as a source of tuning, whose files go with it.

    Raises ScriptError when the script cannot be run, InputError when it failed or left nothing that can be tuned; the
    script's output then stays in a file that the sentence names.
    """
    with OwnFolder("jumar-script-") as folder, kept_log() as log:
        run = replace(run, log=log)
        if job_type == JOB_GRAPHS:
            from jumar.tune.backend.collect import read_collected

            collect_graphs(run, folder / "graphs")
            graphs = [one.captured(str(run.script)) for one in read_collected(folder / "graphs")]
            yield graphs_source(str(run.script), graphs, selection=selection, is_offline=False)
        else:
            record_operators(run, folder / "recording")
            yield replace(open_source(folder / "recording", selection=selection), path=str(run.script))


@contextmanager
def kept_log() -> Iterator[Path]:
    """Yield a file for a script's output, which outlives a script that failed: its traceback is the only clue."""
    handle, name = tempfile.mkstemp(prefix="jumar-script-", suffix=".log")
    os.close(handle)
    log, is_named = Path(name), False
    try:
        yield log
    except InputError as error:
        is_named = name in str(error)
        raise
    finally:
        if not is_named:
            log.unlink(missing_ok=True)


def is_script(where: str) -> bool:
    """Tell whether `where` names a Python script rather than a model or a recording."""
    return where.endswith(".py") and Path(where).is_file()


def collect_graphs(run: ScriptRun, folder: Path) -> LaunchResult:
    """Run the script and write the graphs it computes to `folder`, each with weights and real inputs.

    `jumar.tune.backend.collect.read_collected` reads them. Raises ScriptError when the script cannot be run,
    InputError when it failed or computed no graph that can be tuned.
    """
    from jumar.capture.process.plugin import ENVIRONMENT as PLUGIN_ENVIRONMENT

    folder.mkdir(parents=True, exist_ok=True)
    environment = {COLLECT_ENVIRONMENT: str(folder.absolute()), PLUGIN_ENVIRONMENT: PLUGIN}
    result = _launched(run, folder, None, environment)
    if not any(folder.glob("*.json")):
        raise InputError(f"{run.script} computed no graph that can be tuned{_why(run, result, folder)}")
    return result


def record_operators(run: ScriptRun, folder: Path) -> LaunchResult:
    """Run the script under the observer, the leanest recording that operators can be tuned from, in `folder`.

    Raises ScriptError when the script cannot be run, InputError when it failed before its first step was complete.
    """
    from jumar.capture.plans.plan import LEVELS_FOR_TUNING, VALUES_FOR_TUNING, RecordPlan

    plan = RecordPlan(
        out=str(folder), levels=LEVELS_FOR_TUNING, values=VALUES_FOR_TUNING, steps=(0, run.steps), force=True
    )
    result = _launched(run, folder.parent, plan, {})
    if not any((folder / "steps").glob("*.parquet")):
        raise InputError(f"{run.script} completed no step{_why(run, result, folder.parent)}")
    return result


def _launched(run: ScriptRun, folder: Path, record: RecordPlan | None, environment: dict[str, str]) -> LaunchResult:
    from jumar.capture.process.launcher import launch
    from jumar.device import DevicePlan

    return launch(
        run.script,
        list(run.arguments),
        device=run.device or DevicePlan.from_environment(os.environ) or DevicePlan(kind="cpu"),
        record=record,
        stop_after=run.steps,
        cwd=Path.cwd(),
        log=run.log or folder / LOG,
        environment=environment,
        timeout_s=run.limit_s,
    )


def _why(run: ScriptRun, result: LaunchResult, folder: Path) -> str:
    if result.returncode == 0:
        reasons = _not_tuned(folder)
        return f": {reasons[0]}" if reasons else "; does it call a module with parameters?"
    if result.returncode < 0 and run.limit_s is not None:
        return (
            f"; it was ended after {run.limit_s:.0f} s, or by signal {-result.returncode} before. Give more "
            f"--time-budget, or see {result.log}."
        )
    last = last_words(result.log.read_text("utf-8", "replace")) or "it wrote nothing"
    return f"; it exited with code {result.returncode} ({last}); see {result.log}."


def last_words(text: str) -> str:
    """Return the first line of the error that ended a script, else its last line."""
    lines = text.strip().splitlines()
    tracebacks = [at for at, line in enumerate(lines) if line.startswith("Traceback (most recent call last):")]
    error = (line for line in lines[tracebacks[-1] + 1 :] if line[:1].strip()) if tracebacks else iter(())
    return next(error, lines[-1] if lines else "").strip()


def _not_tuned(folder: Path) -> list[str]:
    from jumar.tune.backend.collect import read_not_tuned

    return [reason for _, reason in read_not_tuned(folder)]
