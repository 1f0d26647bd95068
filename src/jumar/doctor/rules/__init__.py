"""The doctor's rules, one file each: `CHECKS` of the environment, and the rules that findings in logs carry."""

from __future__ import annotations

from jumar.doctor.check import Check
from jumar.doctor.rules import (
    allocator_settings,
    cann_not_set_up,
    collective_settings,
    cpu_governor,
    cpu_quota,
    cuda_variables,
    debug_settings,
    low_disk,
    low_memory,
    npu_driver,
    open_files,
    saturation_mode,
    shared_memory,
    thread_count,
    torch_npu_unusable,
    torch_npu_version,
    torch_unusable,
    visible_devices,
)
from jumar.doctor.rules.known_error import RULE as KNOWN_ERROR
from jumar.doctor.rules.python_traceback import RULE as PYTHON_TRACEBACK
from jumar.doctor.rules.unlisted_error import RULE as UNLISTED_ERROR
from jumar.rules import Rule

CHECKS: tuple[Check, ...] = (
    torch_unusable.CHECK,
    torch_npu_unusable.CHECK,
    torch_npu_version.CHECK,
    cann_not_set_up.CHECK,
    npu_driver.CHECK,
    visible_devices.CHECK,
    cuda_variables.CHECK,
    debug_settings.CHECK,
    saturation_mode.CHECK,
    allocator_settings.CHECK,
    collective_settings.CHECK,
    cpu_governor.CHECK,
    cpu_quota.CHECK,
    thread_count.CHECK,
    shared_memory.CHECK,
    low_memory.CHECK,
    low_disk.CHECK,
    open_files.CHECK,
)
"""In the order of their codes."""

RULES: tuple[Rule, ...] = (*(check.rule for check in CHECKS), KNOWN_ERROR, PYTHON_TRACEBACK, UNLISTED_ERROR)

__all__ = ["CHECKS", "KNOWN_ERROR", "PYTHON_TRACEBACK", "RULES", "UNLISTED_ERROR"]
