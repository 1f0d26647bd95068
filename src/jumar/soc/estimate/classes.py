"""Which class of cost an operator has, from the packaged table; an operator the table lacks is elementwise."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.operators import functional_name, parse

_TABLE = Path(__file__).parents[1] / "data" / "operator_classes.json"

AI_CORE_DTYPES = frozenset({"float32", "float16", "bfloat16", "int32", "int8", "uint8", "bool"})
"""Dtypes that AI Core kernels take on every chip."""
AI_CPU_DTYPES = frozenset({"float64", "int16", "complex128", "complex64", "complex32"})
"""Dtypes whose arithmetic runs on the AI CPU (msprof-analyze's AICPU replacement guide: int16, complex128;
its advisor's rule: DOUBLE)."""
INTEGER_SORT = frozenset({"int32", "int64"})
"""Dtypes whose sort and top-k run on the AI CPU (the vendor's mxRec tuning guide)."""


@dataclass(frozen=True, slots=True)
class OperatorClass:
    """How the operator is costed: `kind`, kernel types of both routes, vector instructions an element."""

    kind: str
    graph_type: str
    instructions: float
    aclnn_type: str
    known: bool = True
    """False where the table lacks the operator."""

    def kernel_types(self, *, is_aclnn: bool) -> tuple[str, ...]:
        """Return the types of the kernels it runs, one after the other."""
        return tuple((self.aclnn_type if is_aclnn else self.graph_type).split("+"))


@functools.cache
def _tables() -> Mapping[str, Any]:
    parsed: dict[str, Any] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return parsed


@functools.cache
def classify(name: str) -> OperatorClass:
    """Return the class of `aten::add_.Tensor`, `npu::npu_rms_norm`, `c10d::allreduce_`."""
    namespace, base, _ = parse(name)
    if "c10d" in namespace or namespace == "hccl":
        kind = (
            _tables()["collectives"].get(base) or _tables()["collectives"].get(base + "_") or f"hcom_{base.strip('_')}_"
        )
        return OperatorClass("communication", kind, 0.0, kind)
    backward = ""
    entry = _entry(base)
    if entry is None and base.endswith("_backward"):
        entry, backward = _entry(base.removesuffix("_backward")), "Grad"
    if entry is None:
        own = "".join(part[:1].upper() + part[1:] for part in base.removeprefix("npu_").strip("_").split("_"))
        return OperatorClass("elementwise", own, 2.0, own, known=False)
    kind, graph_type, instructions = entry[:3]
    aclnn = entry[3] if len(entry) > 3 else graph_type
    if backward and kind in ("attention", "convolution"):
        kind = f"{kind}_backward"
    return OperatorClass(kind, graph_type + backward, float(instructions), aclnn + backward)


def _entry(base: str) -> list[Any] | None:
    operators: Mapping[str, list[Any]] = _tables()["operators"]
    return operators.get(base) or operators.get(functional_name(base))
