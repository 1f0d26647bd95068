"""Writes the pytest and the README that lie beside the script."""

from __future__ import annotations

from jumar.comparison.model.words import number
from jumar.comparison.replay.results import OutputError
from jumar.comparison.repro.calls import calculate_source
from jumar.comparison.repro.case import Case
from jumar.comparison.repro.script import device_of, title

TEST = '''"""Each device must calculate the recorded call within what rounding explains."""

import pytest
import repro


@pytest.mark.parametrize("device", repro.devices())
def test_the_device_agrees_with_the_exact_result(device):
    found = repro.errors(device)
    assert found, f"{device} returned no output to compare"
    for name, error in found.items():
        assert error <= repro.TOLERANCE[name], f"{name}: error {error:.3g} of {repro.TITLE}"
'''


def readme(case: Case, how: str) -> str:
    """Return the README: what is wrong, with which inputs, how to see it. `how` says how the operator was chosen."""
    row, info = case.row, case.info
    arguments = row.arguments if row.arguments not in ("", "{}") else "none"
    lines = [
        f"# {title(case)}",
        "",
        _sentence(case),
        "",
        "| output | dtype | shape | error | units in the last place | rounding explains |",
        "|---|---|---|---|---|---|",
        *(_line(output) for output in case.own.outputs),
        "",
        "## How to see it",
        "",
        "```",
        "python repro.py               # every device there is; --device npu for one",
        "pytest test_repro.py",
        "```",
        "",
        "`repro.py` needs torch and numpy. The NPU is the real one with torch_npu installed, and the emulated one of",
        "Jumar where that is installed.",
        "",
        "## The call",
        "",
        "```python",
        calculate_source(case),
        "```",
        "",
        f"Scalar arguments: `{arguments}`",
        "",
        "| input | dtype | shape | stride |",
        "|---|---|---|---|",
        *(
            f"| {t.name} | {t.dtype} | {list(t.shape)} | {list(t.stride)} |"
            for t in case.last.inputs.invocation.tensors
        ),
        "",
        "## Where it was recorded",
        "",
        f"- device: {device_of(case)}",
        f"- torch {info.torch_version or 'unknown'}{_torch_npu(case)}",
        f"- row: `{row.key}` of step {row.step}, rank {row.rank}" + (f"; {how}" if how else ""),
        f"- autocast: {row.autocast or 'off'}",
        *(f"- {note}" for note in case.notes),
        "",
    ]
    return "\n".join(lines)


def _torch_npu(case: Case) -> str:
    version = case.info.torch_npu_version
    return f", torch_npu {version}" if version else ""


def _inputs(case: Case) -> list[str]:
    tensors = case.last.inputs.invocation.tensors
    return [f"| {t.name} | {t.dtype} | {list(t.shape)} | {list(t.stride)} |" for t in tensors]


def _sentence(case: Case) -> str:
    worst = case.own.worst
    if worst is None:
        return "The operator has no output that could be compared."
    against = f"the exact result ({case.precision}) of the recorded inputs"
    if worst.excess <= 1:
        return f"The recorded output agrees with {against} within what rounding explains."
    return (
        f"The recorded output `{worst.name}` is off by {number(worst.error)} from {against}; rounding explains "
        f"{number(worst.tolerance)}. The greatest difference is at {list(worst.index)}: {number(worst.recorded, 8)} "
        f"instead of {number(worst.exact, 8)}."
    )


def _line(output: OutputError) -> str:
    shape = "×".join(map(str, output.shape)) or "scalar"
    return (
        f"| {output.name} | {output.dtype} | {shape} | {number(output.error)} | {number(output.ulps)} | "
        f"{number(output.tolerance)} |"
    )
