"""The names of the reports, and other names where the sources have a file of that name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportNames:
    """File names in the output folder; the first four and the launcher are those of the Ascend documents."""

    log: str = "msFmkTranspltlog.txt"
    changes: str = "change_list.csv"
    unsupported: str = "unsupported_op.xlsx"
    launcher: str = "run_distributed_npu.sh"
    findings: str = "findings.json"
    patch: str = "changes.patch"
    page: str = "index.html"
    tensorflow: str = "tensorflow_api.xlsx"
    tensorflow_json: str = "tensorflow_api.json"


def report_names(taken: Collection[str]) -> ReportNames:
    """Return the names; one that the sources have already gets `jumar-` in front, so that nothing is replaced.

    File systems that ignore case are respected.
    """
    used = {name.casefold() for name in taken}

    def free(name: str) -> str:
        while name.casefold() in used:
            name = f"jumar-{name}"
        return name

    return ReportNames(**{field.name: free(str(field.default)) for field in fields(ReportNames)})
