"""Findings about a run whose model was not computed on its device: `placement_findings`."""

from __future__ import annotations

from jumar.base.findings import Finding, Location
from jumar.base.text import counted
from jumar.port.coverage import Coverage, fallen_back
from jumar.port.rules import FELL_BACK, NOT_ON_THE_DEVICE, OTHER_NUMBER_OF_DEVICES
from jumar.port.runs import Run
from jumar.recording.schema import split_source


def placement_findings(reference: Run, target: Run) -> list[Finding]:
    """Return the findings about a run whose model, or a part of it, was not computed on its device."""
    coverage = target.coverage
    if coverage is None:
        return []
    name = "NPU" if target.side == "npu" else target.side
    if not coverage.used_device:
        return [_not_used(name, coverage, reference.coverage)]
    shared = _shared_out(name, reference.coverage, coverage) if reference.coverage else []
    if shared:
        return shared
    fallen = fallen_back(reference.coverage, coverage) if reference.coverage else []
    if not fallen:
        return []
    (_phase, module, operator), _, source = fallen[0]
    path, line = split_source(source)
    number = sum(moved for _, moved, _ in fallen)
    return [
        FELL_BACK.finding(
            f"{counted(number, 'operator call')} ran on the CPU that the reference ran on its device, first {operator}"
            + (f" in {module}" if module else ""),
            where=Location(path=path, line=line, operator=operator, module_path=module or None),
            evidence={"calls": number, "on_device": coverage.num_on_device, "all_calls": coverage.num_calls},
            action=f"Look at that line, and at what moves this tensor or module to the {name}.",
        )
    ]


def _shared_out(name: str, reference: Coverage, target: Coverage) -> list[Finding]:
    """Return the finding that a rank used several devices on one side, and one on the other; [] where none did."""
    for rank, devices in reference.devices.items():
        numbers = len(devices), len(target.devices.get(rank, ()))
        if min(numbers) == 1 < max(numbers):
            return [
                OTHER_NUMBER_OF_DEVICES.finding(
                    f"rank {rank} used {counted(numbers[0], 'device')} in the reference run and {numbers[1]} in the "
                    f"{name} run, and may share each batch out between them",
                    where=Location(path=None, rank=rank),
                    evidence={"reference": numbers[0], "target": numbers[1]},
                    action="Repeat this command with CUDA_VISIBLE_DEVICES=0, or start a process for each device.",
                )
            ]
    return []


def _not_used(name: str, coverage: Coverage, reference: Coverage | None) -> Finding:
    """Return the finding that a model was not computed on its device, with what the reference run did."""
    if reference is not None and reference.used_device:
        why = "The reference ran on CUDA: look at the line that chooses the device, its test was not converted."
        place = next((source for _, _, source in fallen_back(reference, coverage) if source), "")
    else:
        why = (
            "The reference ran on the CPU, too: switch CUDA on in the script, or give the arguments after `--` with "
            "which it trains on CUDA."
        )
        place = ""
    path, line = split_source(place)
    rest = (
        f", none of them {'trains the model' if coverage.trains else 'of a module'}" if coverage.num_on_device else ""
    )
    return NOT_ON_THE_DEVICE.finding(
        f"{coverage.num_on_device:,} of {counted(coverage.num_calls, 'operator call')} ran on the {name}{rest}",
        where=Location(path=path, line=line),
        evidence={"on_device": coverage.num_on_device, "calls": coverage.num_calls},
        action=why,
    )
