"""`Roles`: which file of a profiler's folder tells what, by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_NUMBERED = r"(_[\w.-]*)?"
_NAMES = {
    "trace": rf"(trace_view|msprof|ascend_timeline_display){_NUMBERED}\.json",
    "kernels": rf"(kernel_details|op_summary){_NUMBERED}\.csv",
    "tasks": rf"task_time{_NUMBERED}\.csv",
    "operators": rf"op_statistic{_NUMBERED}\.csv",
    "calls": rf"(api_statistic|acl_statistic|runtime_api){_NUMBERED}\.csv",
    "host": r"operator_details\.csv",
    "memory": rf"(memory_record|ge_memory_record|npu_mem|npu_module_mem){_NUMBERED}\.csv",
    "allocations": rf"(operator_memory|ge_operator_memory){_NUMBERED}\.csv",
    "shares": r"step_trace_time\.csv",
    "iterations": r"step_trace_\d[\w.-]*\.csv",
    "communication": r"communication\.json",
    "matrix": r"communication_matrix\.json",
    "databases": r"(ascend_(pytorch|mindspore)_profiler|msprof)(_\d[\w.-]*)?\.db",
    "analyses": r"(analysis|communication_analyzer)\.db",
    "ai_cpu": r"(data_preprocess|aicpu(_\d[\w.-]*)?)\.csv",
    "queues": r"aicpu_mi(_\d[\w.-]*)?\.csv",
    "caches": r"l2_cache(_\d[\w.-]*)?\.csv",
    "settings": r"profiler_(info(_\d+)?|metadata)\.json",
}
_PATTERNS = {role: re.compile(name) for role, name in _NAMES.items()}
_TX = re.compile(r"msprof_tx")
"""Marks that the whole timeline, `msprof_*.json`, has too."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The files of one rank by what they tell."""

    files: Mapping[str, Sequence[Path]]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Roles:
        """Sort files by their names; those of unknown names are left out."""
        found: dict[str, list[Path]] = {}
        for path in sorted(paths):
            role = role_of(path.name)
            if role:
                found.setdefault(role, []).append(path)
        return cls(found)

    def __getitem__(self, role: str) -> Sequence[Path]:
        """Return the files that tell this."""
        return self.files.get(role, ())

    def name(self, role: str) -> str:
        """Return the name of the first file that tells this."""
        return self[role][0].name if self[role] else ""


def role_of(name: str) -> str:
    """Return what a file of this name tells; empty for an unknown one."""
    if _TX.match(name):
        return ""
    return next((role for role, pattern in _PATTERNS.items() if pattern.fullmatch(name)), "")
