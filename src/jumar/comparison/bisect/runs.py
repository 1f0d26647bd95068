"""Runs the script, unchanged, in a process of its own, with or without switched units."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jumar.base.errors import ScriptError
from jumar.capture.plans.plan import RecordPlan
from jumar.capture.process.launcher import launch
from jumar.capture.process.plugin import ENVIRONMENT as PLUGIN_ENVIRONMENT
from jumar.capture.process.seeds import ENVIRONMENT as SEED
from jumar.comparison.bisect.units import ENVIRONMENT, Intervention, Unit, unit_of
from jumar.device import DevicePlan
from jumar.recording import Recording

LAST_LINES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The script of a bisection, and the folder for the results of its runs."""

    script: Path
    arguments: tuple[str, ...]
    folder: Path
    num_steps: int
    seed: int | None = 0
    """Python's, NumPy's and PyTorch's generators start from it; None leaves that to the script."""
    cwd: Path = field(default_factory=Path.cwd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run showed."""

    losses: dict[int, float]
    switched: int
    failed: tuple[str, ...]
    recording: Path


def run(
    program: Program, device: DevicePlan, name: str, intervention: Intervention | None, *, operators: bool = False
) -> Outcome:
    """Run the script for its first steps and return the losses. Raises ScriptError when it fails."""
    folder = program.folder / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    plan = RecordPlan(
        out=str(folder / "recording"),
        levels=("op",) if operators else ("module",),
        values="none",
        steps=(0, program.num_steps),
        force=True,
        command=(str(program.script), *program.arguments),
    )
    environment = variables(intervention, folder, program.seed)
    result = launch(
        program.script,
        program.arguments,
        device=device,
        record=plan,
        stop_after=program.num_steps,
        cwd=program.cwd,
        log=folder / "log.txt",
        environment=environment,
    )
    if result.end is None or result.end.status in {"raised", "interrupted"}:
        raise ScriptError(
            f"{program.script} failed with code {result.returncode}: {_end_of(result.log)}. See {result.log}."
        )
    switched, failed = _reports(folder)
    recording = Recording.open(plan.out)
    return Outcome(losses=dict(recording.losses()), switched=switched, failed=failed, recording=recording.path)


def _end_of(log: Path) -> str:
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return " / ".join(lines[-LAST_LINES:])[-300:] or "it said nothing"


def _reports(folder: Path) -> tuple[int, tuple[str, ...]]:
    switched, failed = 0, Counter[str]()
    for path in folder.glob("process-*.json"):
        data: dict[str, Any] = json.loads(path.read_text("utf-8"))
        switched += sum(data["switched"].values())
        failed.update(data["failed"])
    return switched, tuple(text for text, _ in failed.most_common())


def units_of(recording: Path) -> list[Unit]:
    """Return the units of a recorded run in the order in which they first run."""
    from jumar.comparison.bisect.calculation import can_switch
    from jumar.comparison.replay.rebuilt.invocation import overload
    from jumar.comparison.replay.rebuilt.refusal import NotReplayable

    found: dict[Unit, None] = {}
    known: dict[str, bool] = {}
    for row in Recording.open(recording).iter_rows():
        if row.kind != "op" or not any(_is_floating(tensor.dtype) for tensor in row.inputs):
            continue
        if row.name not in known:
            try:
                known[row.name] = can_switch(overload(row.name))
            except NotReplayable:
                known[row.name] = False
        if known[row.name]:
            found.setdefault(unit_of(row.name, row.module_path))
    return list(found)


def _is_floating(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat", "complex"))


def check(command: Sequence[str], recording: Path, cwd: Path) -> bool:
    """Return whether a command of the user's finds a run good: its exit code is 0. `{recording}` is replaced."""
    filled = [part.replace("{recording}", str(recording)) for part in command]
    try:
        return subprocess.run(filled, cwd=cwd, check=False, capture_output=True).returncode == 0
    except OSError as error:
        raise ScriptError(f"the check {' '.join(filled)} cannot be run: {error.strerror}.") from error


PLUGIN = "jumar.comparison.bisect.intervene:start"


def variables(intervention: Intervention | None, folder: Path, seed: int | None) -> dict[str, str]:
    """Return the variables of a run whose files lie in `folder`. Raises OSError."""
    found = {SEED: str(seed)} if seed is not None else {}
    if intervention is None:
        return found
    path = folder.absolute() / "intervention.json"
    Intervention(units=intervention.units, how=intervention.how, report=str(folder.absolute())).save(path)
    return {**found, ENVIRONMENT: str(path), PLUGIN_ENVIRONMENT: PLUGIN}
