"""Proof of a conversion by running: the original on the reference device, the converted script on the NPU."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from jumar.base.errors import InputError
from jumar.base.findings import Finding, Location, Severity, worst
from jumar.base.rules import Rule
from jumar.capture.process.program import by_torchrun, missing_rank
from jumar.comparison import Comparison, compare
from jumar.convert import Conversion
from jumar.device import DevicePlan
from jumar.port.layout import Layout
from jumar.port.options import PortOptions, Reference
from jumar.port.placement import placement_findings
from jumar.port.progress import Progress, Silent, stage
from jumar.port.rules import NO_TRAINING_COMPARED, NPU_RUN_FAILED, REFERENCE_RUN_FAILED
from jumar.port.runs import Run, findings_of, reference_kind, run_side
from jumar.recording.schema import Values

Device = Literal["npu", "cuda-stand-in", "cpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProof:
    """The runs and how they compare. The recordings are under `out`; None when they were temporary and are removed."""

    reference: Run
    targets: tuple[Run, ...]
    """Runs of the converted script, one a device; none when the reference run failed."""
    comparisons: tuple[Comparison, ...]
    """One for each target that ran to its end."""
    findings: tuple[Finding, ...]
    out: Path | None

    @property
    def agrees(self) -> bool:
        """Every run came to its end, and no finding about them is an error or a warning."""
        severity = worst(self.findings)
        return bool(self.comparisons) and (severity is None or severity < Severity.WARNING)


def verify_run(
    source_script: Path,
    converted: Path | Conversion,
    arguments: Sequence[str] = (),
    *,
    steps: int = 3,
    soc: str = "Ascend910B1",
    root: Path | None = None,
    devices: Sequence[Device] = ("npu",),
    reference: Reference = "auto",
    values: Values = "stats",
    seed: int = 0,
    out: Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> RunProof:
    """Run the original for `steps` training steps on the reference device, the converted script on `devices`; compare.

    `converted` is the converted script, in a tree like the original's, or the conversion itself. `root` is the root
    of the original tree (the script's folder unless given); every converted file below it takes part, of any kind.
    The user's files are not touched. Without `out` everything the runs leave is temporary.

    Raises InputError when a script is missing or the trees do not fit, UsageError, DeviceError and OutputError as
    `PortOptions` and `Layout` do. A script that fails in a run is a finding.
    """
    progress = progress or Silent()
    source_script = Path(source_script)
    if isinstance(converted, Conversion):
        root, replaced = converted.root.resolve(), _of_conversion(converted)
    else:
        root = (root or source_script.parent).resolve()
        replaced = _of_tree(source_script.resolve(), Path(converted).resolve(), root)
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jumar-verify-"))) / "run"
        options = PortOptions(
            script=source_script,
            arguments=tuple(arguments),
            out=folder,
            steps=steps,
            soc=soc,
            reference=reference,
            values=values,
            seed=seed,
            force=force,
        )
        Layout(folder).prepare(force)
        proof = prove(options, {}, lambda _reference: replaced, devices, progress, folders=[root])
        return replace(proof, out=out)


def prove(
    options: PortOptions,
    before: Mapping[Path, bytes],
    after: Callable[[Run], Mapping[Path, bytes]],
    devices: Sequence[Device],
    progress: Progress,
    folders: Sequence[Path] = (),
) -> RunProof:
    """Run the script with the files `before` on the reference device, with those `after` on `devices`; compare.

    `after` is given the reference run, which tells what the script imports. `folders` are mirrored as well as the
    working folder and the script's folder. What the runs leave is under `options.out`.
    """
    out = options.out
    plan = DevicePlan(kind=reference_kind(options), soc=options.soc)
    reference = run_side("reference", plan, before, options, progress=progress, folders=folders)
    if reference.failed:
        finding = _failure(REFERENCE_RUN_FAILED, reference, options)
        return RunProof(reference=reference, targets=(), comparisons=(), findings=(finding,), out=out)
    findings = findings_of(reference, options)
    replaced = after(reference)
    targets: list[Run] = []
    comparisons: list[Comparison] = []
    for device in devices:
        # The CPU's bits on every side: what differs then is caused by the conversion, not by the SoC's rounding.
        plan = DevicePlan(kind=device, soc=options.soc, numerics="exact")
        target = run_side(device, plan, replaced, options, progress=progress, folders=folders)
        targets.append(target)
        if target.failed:
            findings.append(_failure(NPU_RUN_FAILED, target, options))
            continue
        findings += [*findings_of(target, options), *placement_findings(reference, target)]
        if reference.recording is not None and target.recording is not None:
            with stage(progress, "Compare the two runs"):
                comparisons.append(compare(reference.recording, target.recording))
            findings += [*comparisons[-1].findings, *_no_training(comparisons[-1], target)]
    return RunProof(
        reference=reference, targets=tuple(targets), comparisons=tuple(comparisons), findings=tuple(findings), out=out
    )


def compared_losses(comparison: Comparison) -> int:
    """Return how many pairs of losses were compared and agree."""
    return sum(pair.agrees is True for pair in comparison.losses)


def _no_training(comparison: Comparison, target: Run) -> list[Finding]:
    """Return the finding that a comparison holds no loss or no step; [] where it holds both."""
    known = [pair for pair in comparison.losses if pair.agrees is not None]
    if known and comparison.steps:
        return []
    missing = "no loss" if comparison.steps else "no step"
    return [
        NO_TRAINING_COMPARED.finding(
            f"{missing} of the reference and the {target.side} run was compared",
            evidence={"steps": len(comparison.steps), "losses": len(known)},
            action="Give arguments with which the script trains, or more steps with --steps.",
        )
    ]


def _failure(rule: Rule, run: Run, options: PortOptions) -> Finding:
    return rule.finding(
        f"the {run.side} run ended after {run.num_steps} steps: {run.last_line()}",
        where=Location(path=None),
        evidence={
            "steps": run.num_steps, "exit_code": run.returncode, "error": run.error().rstrip(), "log": str(run.log)
        },
        action=_after_failure(run, options),
    )  # fmt: skip


def _after_failure(run: Run, options: PortOptions) -> str:
    variable = missing_rank(run.error())
    if variable and not options.started.launcher:
        again = shlex.join(["jumar", "port", "--force", *by_torchrun(options.started)])
        return f"The script reads {variable}, which a launcher sets for each process. Start it with one: {again}"
    if run.side == "reference" and "torch_npu" in run.last_line():
        return (
            "The script is converted already and does not run on CUDA. Port it as it was for CUDA, or name the folder "
            "of the port that converted it with -o and --force: that folder holds the script as it was."
        )
    return f"Read {run.log}, mend the script or its arguments, and run this command again with --force."


def _of_conversion(conversion: Conversion) -> dict[Path, bytes]:
    root = conversion.root.resolve()
    return {root / outcome.path: outcome.after for outcome in conversion.changed}


def _of_tree(source: Path, converted: Path, root: Path) -> dict[Path, bytes]:
    """Return the files of the converted tree that differ from those at the same place of the original one."""
    if not converted.is_file():
        raise InputError(
            f'the converted script "{converted}" is not a file; give the one that belongs to {source.name}.'
        )
    if root not in source.parents:
        raise InputError(f'"{source}" must lie under the root {root}; give another root.')
    place = source.relative_to(root)
    if converted.parts[-len(place.parts) :] != place.parts:
        raise InputError(f'"{converted}" must end in {place.as_posix()}, as the original does below its root.')
    other = converted.parents[len(place.parts) - 1]
    found: dict[Path, bytes] = {}
    for path in sorted(other.rglob("*")):
        original = root / path.relative_to(other)
        if not path.is_file() or path.is_symlink():
            continue
        content = path.read_bytes()
        if original.is_file() and original.read_bytes() != content:
            found[original] = content
    return found
