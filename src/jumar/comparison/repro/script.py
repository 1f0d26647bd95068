"""Writes the script of a case: `repro.py`, with torch and numpy only."""

from __future__ import annotations

from collections.abc import Mapping

from jumar.capture.notes.operators import operator_info
from jumar.comparison.replay.words import place
from jumar.comparison.repro.calls import calculate_source, substitutes_source, tensor_name
from jumar.comparison.repro.case import Case
from jumar.comparison.repro.literals import assigned, quoted
from jumar.comparison.repro.template import BODY, HEAD
from jumar.soc import DEFAULT_SOC


def title(case: Case) -> str:
    """Return the case in one line: `aten::addmm of blocks.3.fc1 (Linear), forward of step 0, model.py:41`."""
    before = f", with {len(case.steps) - 1} operators before it" if len(case.steps) > 1 else ""
    return f"{case.row.name} of {place(case.row)}{before}"


def script_source(case: Case) -> str:
    """Return the source of the script."""
    parts = [
        _docstring(case),
        HEAD.strip(),
        _constants(case),
        substitutes_source(case),
        calculate_source(case),
        BODY.strip(),
    ]
    return (
        "\n\n\n".join(part.strip() for part in parts if part)
        .replace('"""\n\n\nimport', '"""\n\nimport', 1)
        .replace("import torch\n\n\nTITLE", "import torch\n\nTITLE", 1)
        + "\n"
    )


def _docstring(case: Case) -> str:
    info = case.info
    lines = [
        f'"""{title(case)}.'.replace("\\", "/"),
        "",
        f"Recorded on {device_of(case)} with torch {info.torch_version or 'of unknown version'}. Compares the recorded",
        "output, and the output on each device there is, with the exact result of the same inputs. The exit code is 1",
        "when a device is off by more than rounding explains.",
        "",
        "    python repro.py [--device cpu --device npu]",
        '"""',
    ]
    return "\n".join(lines)


def device_of(case: Case) -> str:
    """Return the recorded device in words: `npu (emulated), Ascend910A`."""
    info = case.info
    return ", ".join(part for part in (info.device, info.soc) if part) or "an unknown device"


def _constants(case: Case) -> str:
    errors = {output.name: output for output in case.own.outputs}
    prefix = f"{len(case.steps) - 1}." if len(case.steps) > 1 else ""
    outputs = {prefix + tensor.name: (tensor.dtype, tensor.shape) for tensor in case.outputs}
    tolerances = {prefix + name: float(f"{output.tolerance:.4g}") for name, output in errors.items()}
    natural = {prefix + name: float(f"{case.natural.get(name, 0.0):.6g}") for name in errors}
    exact = {prefix + t.name: str(case.exact[t.name].dtype) for t in case.outputs} if case.exact else {}
    return "\n".join(
        [
            assigned("TITLE", title(case)),
            assigned("RECORDED_ON", device_of(case)),
            f"SOC = {quoted(_soc(case))}  # of the emulated NPU",
            f"PRECISION = {quoted(case.precision)}  # of the exact result",
            _table("TENSORS", tensor_specs(case), "name: dtype, shape, stride, offset, number of its memory"),
            _table("OUTPUTS", outputs, "name: dtype, shape"),
            _table("TOLERANCE", tolerances, "what rounding explains"),
            _table("NATURAL", natural, "L2 norm of the outputs if no terms cancelled; 0: not known"),
            _table("EXACT", exact, "stored exact results, where no CPU kernel gives them: name: dtype"),
        ]
    )


def _soc(case: Case) -> str:
    return case.info.soc if case.info.soc.startswith("Ascend") else DEFAULT_SOC


def _table(name: str, values: Mapping[str, object], comment: str) -> str:
    if not values:
        return f"{name} = {{}}  # {comment}"
    rows = [f"    {quoted(key)}: {_plain(value)}," for key, value in values.items()]
    return "\n".join([f"{name} = {{  # {comment}", *rows, "}"])


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        inner = ", ".join(_plain(item) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return quoted(value) if isinstance(value, str) else repr(value)


def tensor_specs(case: Case) -> dict[str, object]:
    """Return, by name in the script, dtype, shape, stride, offset and memory of the tensors that are loaded."""
    specs: dict[str, object] = {}
    for position, step in enumerate(case.steps):
        writes = bool(operator_info(step.inputs.invocation.operator).writes)
        shares = {t.storage for t in step.loaded if sum(o.storage == t.storage for o in step.loaded) > 1 and writes}
        memories: dict[int, int] = {}
        for tensor in step.loaded:
            name = tensor_name(case, position, tensor)
            if name in specs:
                continue
            shared = tensor.storage in shares and tensor.storage > 0
            memory = memories.setdefault(tensor.storage, len(specs)) if shared else len(specs)
            offset = tensor.storage_offset if shared or _by_offset(step.row.name) else 0
            specs[name] = (tensor.dtype, tensor.shape, tensor.stride, offset, memory)
    return specs


def _by_offset(name: str) -> bool:
    return "as_strided" in name
