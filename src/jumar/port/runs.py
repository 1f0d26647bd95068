"""The two runs of `jumar port`: the unchanged script on the reference device, the converted one on the NPU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jumar.base.errors import RecordingError
from jumar.base.findings import Finding, Location
from jumar.capture import RecordPlan, launch
from jumar.capture.process.project import ENVIRONMENT as PROJECT_FILES
from jumar.capture.process.project import FOLDER as PROJECT_FOLDER
from jumar.capture.process.project import executed_files, import_folders
from jumar.capture.process.seeds import ENVIRONMENT as SEED
from jumar.capture.process.workspace import ENVIRONMENT, Workspace
from jumar.device import DevicePlan
from jumar.device.plan import PLUGIN_VARIABLE
from jumar.port.coverage import Coverage, coverage_of
from jumar.port.failure import Failure, printed
from jumar.port.layout import Layout
from jumar.port.options import PortOptions
from jumar.port.progress import Progress
from jumar.port.rules import FEW_STEPS, NOT_COVERED
from jumar.port.sources import root_of
from jumar.recording import Recording
from jumar.recording.schema import RunEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One finished run: how it ended, and its files."""

    side: str
    """`reference` or the device of the converted script, as in the output folder."""
    end: RunEnd | None
    """None when the process died without saying how."""
    returncode: int
    log: Path
    recording: Recording | None
    """None when the run left no readable recording."""
    workspace: Path
    """Root of the mirror the script ran in; left out of paths that a person reads."""
    losses: Sequence[tuple[int, float]] = ()
    """(step, loss) of the recorded steps, read once."""
    coverage: Coverage | None = None
    """Where the run computed; None without a recording, and for a run that was meant for the CPU."""
    executed: Sequence[Path] = ()
    """Files of the user's project that the run executed."""

    @property
    def failed(self) -> bool:
        """The script raised, died, or ended itself with an error before the steps were done."""
        if self.end is None or self.end.status in {"raised", "interrupted"}:
            return True
        return self.end.status == "exited" and self.end.exit_code != 0

    @property
    def num_steps(self) -> int:
        """Steps in the recording."""
        return len(self.recording.steps()) if self.recording else 0

    def error(self) -> str:
        """The script's traceback, else the last error or the last lines of its output."""
        return self._failure().text.replace(str(self.workspace), "")

    def last_line(self) -> str:
        """The line of `error` that names it, else how the process ended."""
        return self._failure().line.replace(str(self.workspace), "") or f"exit code {self.returncode}"

    def _failure(self) -> Failure:
        if self.end is not None and self.end.error:
            return Failure(self.end.error)
        return printed(self.log, killed_by=max(0, -self.returncode) if self.end is None else 0)


def reference_kind(options: PortOptions) -> Literal["cuda", "cuda-stand-in"]:
    """Return the reference device of this machine."""
    if options.reference != "auto":
        return options.reference
    import torch

    return "cuda" if torch.cuda.is_available() else "cuda-stand-in"


def run_side(
    side: str,
    device: DevicePlan,
    replaced: Mapping[Path, bytes],
    options: PortOptions,
    *,
    progress: Progress,
    folders: Sequence[Path] = (),
) -> Run:
    """Run the script on one side in a copy-on-write workspace that holds `replaced` files, under the observer.

    `folders` are mirrored as well as the working folder and the script's folder, e.g. the root of a whole project.
    """
    layout = Layout(options.out)
    script = options.script.resolve()
    workspace = Workspace.create(
        layout.workspace(side),
        [Path.cwd(), script.parent, *import_folders(os.environ), *folders],
        leave_out=[layout.root, layout.root.parent / ".git"],
    )
    for path, content in replaced.items():
        workspace.put(path, content)
    out = layout.recording(side)
    task = progress.add_task(_label(side), total=options.steps)
    result = launch(
        options.started.with_entries(lambda path: workspace.path(path.resolve())),
        device=device,
        record=RecordPlan(
            out=str(out.resolve()),
            levels=("module", "op", "optimizer"),  # advice counts the optimizer's operators, too
            values=options.values,
            steps=(0, options.steps),
            command=options.started.words,
        ),
        stop_after=options.steps,
        cwd=workspace.path(Path.cwd()),
        log=layout.log(side),
        environment=_environment(side, device, workspace, options),
        on_progress=lambda done: progress.update(task, completed=done),
    )
    recording = _open(out)
    kind = {"npu": "npu", "cuda": "cuda", "cuda-stand-in": "cuda"}.get(device.kind)
    run = Run(
        side=side,
        end=result.end,
        returncode=result.returncode,
        log=result.log,
        recording=recording,
        workspace=workspace.root,
        losses=recording.losses() if recording else (),
        coverage=coverage_of(recording, kind) if recording and kind else None,
        executed=executed_files(layout.executed(side)),
    )
    progress.update(task, completed=run.num_steps, total=max(run.num_steps, 1))
    return run


def _label(side: str) -> str:
    if side == "reference":
        return "Run the script on the reference device"
    return f"Run the converted script on the {side.upper() if side in ('npu', 'cpu') else side}"


def _environment(side: str, device: DevicePlan, workspace: Workspace, options: PortOptions) -> dict[str, str]:
    """Return the environment variables that the script's processes get in addition to the user's."""
    variables = {
        ENVIRONMENT: str(workspace.root),
        PROJECT_FILES: str(Layout(options.out).executed(side).absolute()),
        PROJECT_FOLDER: str(root_of([options.script.resolve()])),
        **_module_path(device, workspace),
        SEED: str(options.seed),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),  # sets iterate in the same order on both sides
    }
    if side != "npu":
        variables[PLUGIN_VARIABLE] = ""  # the stand-in for CUDA is emulated too, and must stay as it is
    return variables


def _module_path(device: DevicePlan, workspace: Workspace) -> dict[str, str]:
    """Return PYTHONPATH with the project's folders as the mirror has them; nothing where it is not set."""
    path = device.to_environment().get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    own = {str(folder) for folder in import_folders(os.environ)}
    entries = [
        str(workspace.path(Path(entry))) if Path(entry).is_absolute() and entry.rstrip(os.sep) in own else entry
        for entry in path.split(os.pathsep)
    ]
    return {"PYTHONPATH": os.pathsep.join(entries)} if path else {}


def findings_of(run: Run, options: PortOptions) -> list[Finding]:
    """Return the findings about a run that did not fail: too few steps, parts that were not observed."""
    findings = []
    if run.num_steps < options.steps:
        findings.append(
            FEW_STEPS.finding(
                f"the {run.side} run completed {run.num_steps} of {options.steps} steps",
                where=Location(path=options.script.name),
                evidence={"steps": run.num_steps, "asked": options.steps, "log": str(run.log)},
                action="Pass arguments that train longer, or ask for fewer steps with --steps.",
            )
        )
    notes = list(run.end.not_covered) if run.end else []
    notes += run.recording.warnings if run.recording else []
    findings += [
        NOT_COVERED.finding(f"{run.side} run: {note}", action="Leave that feature out of the trial run, if you can.")
        for note in notes
    ]
    return findings


def _open(path: Path) -> Recording | None:
    try:
        return Recording.open(path)
    except RecordingError:
        return None
