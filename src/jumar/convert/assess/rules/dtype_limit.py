"""A dtype that the NPU has no arithmetic for, or that the vendor's limits exclude for an operator.

## What it does
In a source: reports `torch.float64`, complex dtypes and unsigned integers wider than 8 bits where they are
named, and bfloat16 on a SoC without it. In a recording: reports the operators that were executed with such
a dtype, and which of them the vendor's limits seem to exclude it for.

## Why it matters
The AI Core computes in float16, bfloat16, float32 and integers. For float64 and complex numbers an
operator is either refused at run time or carried out by a slow unit. Ascend910A and the inference chips
have no bfloat16 at all.

## Example
`target.double()` before a loss; `torch.arange(n, dtype=torch.float64)` in a learning-rate table.

## Use instead
float32 on the device, or compute in float64 on the host (`x.cpu().double()`); float16 with loss scaling
in place of bfloat16 on Ascend910A; two real tensors in place of a complex one.

## Fix safety
No edit is made: another dtype is another result.

## References
Ascend/pytorch, `docs/zh/api/native_api` ("limits and notes", read by a heuristic: likely, not certain) and
`NpuVariables.cpp` (bfloat16 from Ascend910B1 on).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.convert.assess.model import Row
from jumar.convert.assess.subject import Assessed, first_place, shown, times
from jumar.soc.support import SupportTables

RULE = Rule(
    code="JM206",
    name="dtype-limit",
    summary="The script or run uses a dtype that the NPU computes slowly or not at all.",
    severity=Severity.WARNING,
    doc=__doc__,
)

DOUBTFUL = ("float64", "complex64", "complex128", "complex32", "uint16", "uint32", "uint64")
"""Dtypes that are doubtful on every SoC."""

SPELLINGS = {
    "torch.float64": "float64",
    "torch.double": "float64",
    "torch.Tensor.double": "float64",
    "torch.complex64": "complex64",
    "torch.cfloat": "complex64",
    "torch.Tensor.cfloat": "complex64",
    "torch.complex128": "complex128",
    "torch.cdouble": "complex128",
    "torch.Tensor.cdouble": "complex128",
    "torch.uint16": "uint16",
    "torch.uint32": "uint32",
    "torch.uint64": "uint64",
    "torch.bfloat16": "bfloat16",
    "torch.Tensor.bfloat16": "bfloat16",
}
"""API that names a dtype → that dtype."""


def find(subject: Assessed) -> Iterator[Finding]:
    """Yield one finding for each doubtful dtype that is used."""
    by_dtype: dict[str, list[Row]] = defaultdict(list)
    for row in subject.rows:
        named = (SPELLINGS[row.name],) if row.name in SPELLINGS else row.dtypes
        for dtype in named:
            if _is_doubtful(dtype, subject.tables):
                by_dtype[dtype].append(row)
    for dtype, found in sorted(by_dtype.items()):
        is_recorded = found[0].kind == "operator"
        yield _of_recording(dtype, found, subject.tables) if is_recorded else _of_source(dtype, found, subject.tables)


def _is_doubtful(dtype: str, tables: SupportTables) -> bool:
    return dtype in DOUBTFUL or (dtype == "bfloat16" and not tables.soc.has_bfloat16)


def _of_source(dtype: str, rows: Sequence[Row], tables: SupportTables) -> Finding:
    places = [place for row in rows for place in row.where]
    return RULE.finding(
        f"{dtype} is named in {times(len(places), 'place')}; {_limit(dtype, tables)}.",
        where=first_place(rows[0]),
        evidence={"dtype": dtype, "num_uses": len(places), "places": shown(places)},
        why=_WHY,
        action=_action(dtype),
        confidence="possible",  # a dtype that is named need not reach the device
    )


def _of_recording(dtype: str, rows: Sequence[Row], tables: SupportTables) -> Finding:
    excluded = [row for row in rows if dtype in row.excluded_dtypes]
    limit = _limit(dtype, tables)
    if excluded:
        limit += f"; the vendor's limits seem to exclude it for {', '.join(row.name for row in excluded[:5])}"
    is_certain = dtype == "bfloat16"
    return RULE.finding(
        f"{times(len(rows), 'operator')} ran with {dtype}; {limit}.",
        where=first_place((excluded or rows)[0]),
        evidence={
            "dtype": dtype,
            "operators": [{"name": row.name, "num_uses": row.num_uses, "places": shown(row.where)} for row in rows],
            "excluded": [row.name for row in excluded],
        },
        why=_WHY,
        action=_action(dtype),
        severity=Severity.ERROR if is_certain else Severity.WARNING,
        confidence="certain" if is_certain else "likely",
    )


_WHY = "An operator on a dtype without hardware is refused, or carried out by a slow unit."


def _limit(dtype: str, tables: SupportTables) -> str:
    if dtype == "bfloat16":
        return f"{tables.soc.name} has no bfloat16"
    return "the AI Core does not compute in it"


def _action(dtype: str) -> str:
    if dtype == "bfloat16":
        return "Use float16 with loss scaling, or a SoC from Ascend910B1 on."
    if dtype == "float64":
        return "Use float32 on the device, or do this part on the host."
    return "Check that it stays on the host, or use float32 or signed integers on the device."
