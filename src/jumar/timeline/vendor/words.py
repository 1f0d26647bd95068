"""What the words of CANN and torch_npu mean: kinds of events, units of the chip, shapes, frames of the user's code."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from jumar.timeline.model.events import Detail, Kind
from jumar.timeline.vendor.text import quantities

CORE = "Accelerator Core"
"""Key in `Detail.more`: `AI_CORE`, `AI_VECTOR_CORE`, `MIX_AIC`, `AI_CPU`, ... in one spelling for every version."""
OP_TYPE = "Op Type"
"""Key in `Detail.more`: the operator's type in CANN, `MatMulV3`, `TransData`, `Cast`."""
AI_CPU = "AI_CPU"

_CORES = {
    "AICORE": "AI_CORE", "AICPU": AI_CPU, "KERNEL_AICORE": "AI_CORE", "KERNEL_AICPU": AI_CPU, "HOST_AICPU": AI_CPU,
    "MIXED_AIC": "MIX_AIC", "MIXED_AIV": "MIX_AIV", "AIVECTOR": "AI_VECTOR_CORE", "KERNEL_AIVEC": "AI_VECTOR_CORE",
    "KERNEL_MIX_AIC": "MIX_AIC", "KERNEL_MIX_AIV": "MIX_AIV",
}  # fmt: skip
_COLLECTIVE = re.compile(r"hcom|hccl|communication", re.IGNORECASE)
_COPY = re.compile(r"memcpy|memset|sdma|pcie_dma", re.IGNORECASE)
_COPIES = re.compile(r"(\w+_)?memcpy(_async)?$|sdma|pcie_dma", re.IGNORECASE)
"""Names of copies, where the task type is not told."""
_IS_SYNC = re.compile(r"synchronize|StreamWaitEvent$|SubscribeReport|hostfunc.*wait", re.IGNORECASE)
_COMPILES = re.compile(r"compile", re.IGNORECASE)
_COMPUTES = re.compile(r"AI_CORE|AI_VECTOR|AI_CPU|MIX_|FUSION|FFTS|^DSA|DVPP|^CCU|^DPU", re.IGNORECASE)
_OPERATOR = re.compile(r"acln?n?[A-Z]|format_contiguous|contiguous_|\w+Backward\d*$|[a-z0-9_]+_$")
"""Operators of torch_npu and of autograd, whose names have no `::`: `aclnnMm`, `format_contiguousV2`, `detach_`."""
_WAITS = re.compile(r"(event|notify)_|place_holder|write_value|capture_|model_maintain", re.IGNORECASE)
"""Names of the scheduler's own tasks, which calculate nothing."""
_FRAME = re.compile(r"(?P<file>[^():;]+\.py)\((?P<line>\d{1,9})\)")
_NOT_THE_USERS = re.compile(
    r"site-packages|dist-packages|^<|(^|/)(torch|torch_npu|mindspore|jumar|click|numpy|lib/python[\d.]+)/|(^|/)runpy\.py"
)


def core(word: str) -> str:
    """Return the unit of the chip in one spelling: `AI Core`, `AI_CORE` and `KERNEL_AICORE` are `AI_CORE`."""
    plain = word.strip().upper().replace(" ", "_")
    return _CORES.get(plain, plain)


def is_ai_cpu(detail: Detail | None) -> bool:
    """Return whether a kernel ran on the chip's general-purpose processors."""
    return detail is not None and (CORE, AI_CPU) in detail.more


def device_kind(name: str, unit: str) -> Kind:
    """Return what an event of the device is, by its name and its task type (`core`)."""
    if _COLLECTIVE.search(unit) or (_COLLECTIVE.match(name) and unit != AI_CPU):
        return Kind.COLLECTIVE
    if _COPY.search(unit) or (unit in ("", "OTHER") and _COPIES.match(name)):
        return Kind.COPY
    if not unit or unit == "OTHER":
        return Kind.OTHER if _WAITS.match(name) else Kind.KERNEL
    if _COMPUTES.search(unit):
        return Kind.KERNEL
    return Kind.OTHER


def runtime_kind(name: str) -> Kind:
    """Return what a call of CANN on the host is."""
    if _IS_SYNC.search(name):
        return Kind.WAIT
    return Kind.COMPILE if _COMPILES.search(name) else Kind.RUNTIME


def host_kind(name: str, category: str) -> Kind:
    """Return what an event of the framework's tracks is."""
    if category == "python_function":
        return Kind.PYTHON
    if category in ("enqueue", "dequeue") or name.startswith(("Enqueue@", "Dequeue@")):
        return Kind.RUNTIME
    if name.startswith("ProfilerStep#"):
        return Kind.STEP
    if "DataLoader" in name or name.startswith("dataloader"):
        return Kind.DATA
    if "::" in name and not name.startswith(("Optimizer.", "nn.Module")) and category != "user_annotation":
        return Kind.OPERATOR
    return Kind.OPERATOR if _OPERATOR.match(name) else Kind.RANGE


def shapes(text: object) -> str:
    """Return shapes as JSON: CANN's `8,4;4` is `[[8, 4], [4]]`. Empty where there are none."""
    if isinstance(text, list):
        return json.dumps(text)
    plain = str(text).strip().strip('"')
    if not plain.strip(";") or quantities.is_nothing(plain):
        return ""
    found = []
    for part in plain.split(";"):
        numbers = [quantities.integer(number) for number in part.strip(" []").split(",") if number.strip()]
        found.append([number for number in numbers if number is not None])
    return json.dumps(found)


def listed(text: object) -> str:
    """Return a list of words as JSON: `FLOAT;FLOAT16` is `["FLOAT", "FLOAT16"]`. Empty where there are none."""
    if isinstance(text, list):
        return json.dumps(text)
    plain = str(text).strip().strip('"')
    if not plain.strip(";") or quantities.is_nothing(plain):
        return ""
    return json.dumps([part.strip() for part in plain.split(";")])


def users_frame(stack: str) -> str:
    """Return the innermost line of the user's own code in a `Call stack`, `train.py:41`; empty where there is none."""
    frames = _FRAME.finditer(stack.replace("\r", "").replace("\n", ""))
    return users_place([(frame["file"].strip(), int(frame["line"])) for frame in frames])


def users_place(frames: Sequence[tuple[str, int]]) -> str:
    """Return the innermost of (file, line) that is the user's own, `train.py:41`; frames come innermost first."""
    own = (frame for frame in frames if frame[0].endswith(".py") and not _NOT_THE_USERS.search(frame[0]))
    return next((f"{file}:{line}" for file, line in own), "")
