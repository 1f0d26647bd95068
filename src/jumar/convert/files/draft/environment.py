"""Environment variables of CUDA and NCCL: the variable of the NPU for each, and the form of its value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from jumar.base.findings import Safety, Severity
from jumar.convert.model.api_map import packaged

NAME = re.compile(
    r"(?:(?:TORCH_|PYTORCH_(?:NO_)?)?(?:CUDA|NCCL|CUBLAS|CUDNN|NVIDIA|NVTE)_[A-Z0-9_]+|DS_ACCELERATOR"
    r"|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|TORCH_CUDNN_[A-Z0-9_]+|CUDACXX|CUDAARCHS)"
)
"""Names of variables that NVIDIA's software reads, or that choose it."""

_NUMBERS = re.compile(r"\s*\d+\s*(?:,\s*\d+\s*)*,?")
_NEEDS_NO_SEGMENTS = ("max_split_size_mb", "garbage_collection_threshold")
_OPTION = re.compile(r"(\w+):(\[[^\]]*\]|[^,\[\]]*)(?:,|$)")

Form = Literal["same", "devices", "switch", "allocator", "accelerator", "idle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One row of `data/npu_environment.json`."""

    npu: str | None
    form: Form
    safety: Safety
    note: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What becomes of one assignment: the counterpart's name (None: it stays) and value (None: the same)."""

    name: str | None = None
    value: str | None = None
    safety: Safety = "safe"
    reason: str = ""
    """Why the assignment stays, or what the edit changes; a clause of the message."""
    note: str = ""


@cache
def variables() -> dict[str, Variable]:
    """Return the table of variables by their CUDA or NCCL name."""
    return {name: Variable(**row) for name, row in packaged("npu_environment")["variables"].items()}


def counterpart(name: str) -> str | None:
    """Return the NPU's name for a variable, None where there is none or the variable keeps its name."""
    row = variables().get(name)
    return row.npu if row is not None and row.npu != name else None


def note(name: str) -> str:
    """Return what to know about a variable's counterpart, or what to do instead."""
    row = variables().get(name)
    return row.note if row is not None else "Nothing on an NPU reads it: remove it, or keep it for CUDA machines."


def severity_of(name: str) -> Severity:
    """Return how much a variable matters that is not renamed: nothing is to be done about some."""
    row = variables().get(name)
    return Severity.INFO if row is None or row.form == "idle" else Severity.ADVICE


def judge(name: str, value: str | None) -> Judgement:
    """Judge the assignment of `value` (None: it is known only when the script runs) to the variable `name`."""
    row = variables().get(name)
    if row is None or row.npu is None:
        return Judgement(reason="has no effect on an NPU", note=note(name))
    if value is None:
        return _unknown(row)
    return _FORMS[row.form](row, value)


def _same(row: Variable, _: str) -> Judgement:
    return Judgement(name=row.npu, safety=row.safety, reason=_stands_for(row), note=row.note)


def _switch(row: Variable, value: str) -> Judgement:
    if value in ("0", "1"):
        return _same(row, value)
    return Judgement(reason=f"is not read on an NPU; {row.npu} takes 0 and 1, not {value!r}", note=row.note)


def _stands_for(row: Variable) -> str:
    return f"is not read on an NPU; {row.npu} is"


def _unknown(row: Variable) -> Judgement:
    if row.form == "accelerator":
        return Judgement(reason="gets a value that is known only when the script runs", note=row.note)
    reason = f"{_stands_for(row)}, and the value is known only when the script runs"
    return Judgement(name=row.npu, safety="unsafe", reason=reason, note=row.note)


def _devices(row: Variable, value: str) -> Judgement:
    if not value.strip() or value.strip() == "-1":
        reason = "hides every device from CUDA; it has no effect on an NPU"
        return Judgement(reason=reason, note="Let the program run on the CPU by an option of its own.")
    numbers = [int(part) for part in value.split(",") if part.strip()] if _NUMBERS.fullmatch(value) else []
    if not numbers or len(set(numbers)) != len(numbers):
        reason = f"is not read on an NPU, and {row.npu} takes ascending numbers, not {value!r}"
        return Judgement(reason=reason, note=row.note)
    new = ",".join(str(number) for number in sorted(numbers))
    reason = _stands_for(row)
    if sorted(numbers) != numbers:
        reason += f" (ascending, so the process that had device {numbers[0]} first now has {min(numbers)} first)"
    return Judgement(name=row.npu, value=None if new == value else new, reason=reason, note=row.note)


def _allocator(row: Variable, value: str) -> Judgement:
    options = packaged("npu_environment")["allocator_options"]
    pairs = [(match.group(1), match.group(2)) for match in _OPTION.finditer(value)]
    if not pairs or _OPTION.sub("", value) != "":
        return Judgement(reason=f"is not read on an NPU, and {value!r} is no list of options", note=row.note)
    foreign = [name for name, _ in pairs if name not in options["same"] and name not in options["renamed"]]
    if foreign:
        reason = f"is not read on an NPU; {row.npu} is, but has no option {', '.join(foreign)}"
        return Judgement(reason=reason, note="Take the option out, or tune the NPU's allocator anew.")
    if ("expandable_segments", "True") in pairs and any(name in _NEEDS_NO_SEGMENTS for name, _ in pairs):
        reason = f"is not read on an NPU; {row.npu} is, but takes expandable_segments:True alone or the other limits"
        return Judgement(reason=reason, note="Choose one of the two.")
    new = value
    for old, renamed in options["renamed"].items():
        new = re.sub(rf"\b{old}\b", renamed, new)
    return Judgement(name=row.npu, value=None if new == value else new, reason=_stands_for(row), note=row.note)


def _accelerator(row: Variable, value: str) -> Judgement:
    if value != "cuda":
        return Judgement()
    return Judgement(name=row.npu, value="npu", reason="makes DeepSpeed use CUDA", note=row.note)


_FORMS: dict[Form, Callable[[Variable, str], Judgement]] = {
    "same": _same,
    "devices": _devices,
    "switch": _switch,
    "allocator": _allocator,
    "accelerator": _accelerator,
    "idle": _same,
}
