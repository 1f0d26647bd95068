"""`torch_npu.profiler.experimental_config`: what to collect beyond the basics, checked as the vendor checks it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from jumar.npu.profiler.messages import warn

__all__ = [
    "AiCMetrics",
    "ExportType",
    "HostSystem",
    "ProfilerLevel",
    "_ExperimentalConfig",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
]


class ProfilerLevel:
    """How much is collected; Level1 adds the CANN layer and figures of each kernel."""

    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"
    Level_none = "Level_none"


class AiCMetrics:
    """Counters of an AI Core. The emulator fills those of `PipeUtilization`."""

    PipeUtilization = "ACL_AICORE_PIPE_UTILIZATION"
    ArithmeticUtilization = "ACL_AICORE_ARITHMETIC_UTILIZATION"
    Memory = "ACL_AICORE_MEMORY_BANDWIDTH"
    MemoryL0 = "ACL_AICORE_L0B_AND_WIDTH"
    MemoryUB = "ACL_AICORE_MEMORY_UB"
    ResourceConflictRatio = "ACL_AICORE_RESOURCE_CONFLICT_RATIO"
    L2Cache = "ACL_AICORE_L2_CACHE"
    MemoryAccess = "ACL_AICORE_MEMORY_ACCESS"
    AiCoreNone = "ACL_AICORE_NONE"


class ExportType:
    """Kind of files written. The emulator writes text."""

    Db = "db"
    Text = "text"


class HostSystem:
    """Counters of the host."""

    CPU = "cpu"
    MEM = "mem"
    DISK = "disk"
    NETWORK = "network"
    OSRT = "osrt"
    NUMA = "numa"


def _values(holder: type) -> set[str]:
    return {value for name, value in vars(holder).items() if not name.startswith("_")}


def supported_profiler_level() -> set[str]:
    """Return the levels that `profiler_level` takes."""
    return _values(ProfilerLevel)


def supported_ai_core_metrics() -> set[str]:
    """Return the values that `aic_metrics` takes."""
    return _values(AiCMetrics)


def supported_export_type() -> set[str]:
    """Return the values that `export_type` takes."""
    return _values(ExportType)


class _ExperimentalConfig:
    """Options of the vendor's profiler. A value that is not allowed is replaced, with a line in the log."""

    def __init__(
        self,
        profiler_level: str = ProfilerLevel.Level0,
        aic_metrics: str = AiCMetrics.PipeUtilization,
        l2_cache: bool = False,
        msprof_tx: bool = False,
        mstx: bool = False,
        data_simplification: bool = True,
        record_op_args: bool = False,
        op_attr: bool = False,
        gc_detect_threshold: float | None = None,
        export_type: str | list[str] = ExportType.Text,
        host_sys: list[str] | None = None,
        mstx_domain_include: list[str] | None = None,
        mstx_domain_exclude: list[str] | None = None,
        sys_io: bool = False,
        sys_interconnection: bool = False,
    ) -> None:
        self._profiler_level = profiler_level
        self._aic_metrics = aic_metrics
        self._l2_cache = l2_cache
        self._msprof_tx = msprof_tx
        self._mstx = mstx
        self._data_simplification = data_simplification
        self.record_op_args = record_op_args
        self._export_type = _listed(export_type)
        self._op_attr = op_attr
        self._gc_detect_threshold = gc_detect_threshold
        self._host_sys: Any = host_sys or []
        self._mstx_domain_include = mstx_domain_include or []
        self._mstx_domain_exclude = mstx_domain_exclude or []
        self._sys_io = sys_io
        self._sys_interconnection = sys_interconnection
        self._check()

    @property
    def export_type(self) -> list[str]:
        """Kinds of files to write."""
        return self._export_type

    @property
    def profiler_level(self) -> str:
        """The level, after the checks."""
        return self._profiler_level

    @property
    def with_gc(self) -> bool:
        """Whether Python's garbage collections are recorded."""
        return self._gc_detect_threshold is not None

    @property
    def gc_detect_threshold(self) -> float | None:
        """Shortest garbage collection that is recorded, in milliseconds."""
        return self._gc_detect_threshold

    @property
    def tx_enabled(self) -> bool:
        """Whether `mstx` marks are recorded."""
        return self._msprof_tx or self._mstx

    def wants_domain(self, domain: str) -> bool:
        """Return whether marks of this domain are recorded."""
        if not self.tx_enabled:
            return False
        if self._mstx_domain_include:
            return domain in self._mstx_domain_include
        return domain not in self._mstx_domain_exclude

    def to_dict(self) -> dict[str, Any]:
        """Return the options as `profiler_info.json` holds them."""
        return dict(vars(self))

    def _check(self) -> None:
        self._check_level_and_metrics()
        for name in (
            "_l2_cache",
            "_msprof_tx",
            "_mstx",
            "record_op_args",
            "_op_attr",
            "_sys_io",
            "_sys_interconnection",
        ):
            self._check_bool(name)
        if self._data_simplification is not None:
            self._check_bool("_data_simplification", instead=True)
        if self._msprof_tx:
            warnings.warn(
                "The parameter msprof_tx will be deprecated. Please use the new parameter mstx instead.", stacklevel=4
            )
        if self._profiler_level == ProfilerLevel.Level_none and not self.tx_enabled:
            self._mstx = True
            warn("Parameter mstx or msprof_tx must be True if profiler_level is set to Level_none.")
        self._check_export()
        self._check_gc()
        self._check_domains()
        self._check_host()

    def _check_bool(self, name: str, *, instead: bool = False) -> None:
        if not isinstance(getattr(self, name), bool):
            public = name.strip("_")
            reset = "default" if instead else "False"
            warn(f"Invalid parameter {public}, which must be of bool type, reset it to {reset}.")
            setattr(self, name, instead)

    def _check_level_and_metrics(self) -> None:
        is_low = self._profiler_level in (ProfilerLevel.Level0, ProfilerLevel.Level_none)
        if is_low and self._aic_metrics != AiCMetrics.AiCoreNone:
            if self._aic_metrics != AiCMetrics.PipeUtilization:
                warn("Please use level1 or level2 if you want to collect aic metrics, reset aic metrics to None!")
            self._aic_metrics = AiCMetrics.AiCoreNone
        if self._profiler_level not in supported_profiler_level():
            warn("Invalid parameter profiler_level, reset it to ProfilerLevel.Level0.")
            self._profiler_level = ProfilerLevel.Level0
        if self._aic_metrics not in supported_ai_core_metrics():
            warn("Invalid parameter aic_metrics, reset it to default.")
            low = self._profiler_level == ProfilerLevel.Level0
            self._aic_metrics = AiCMetrics.AiCoreNone if low else AiCMetrics.PipeUtilization

    def _check_export(self) -> None:
        if not set(self._export_type) <= supported_export_type():
            warn("Invalid parameter export_type, reset it to text.")
            self._export_type = [ExportType.Text]
        if self._op_attr and ExportType.Db not in self._export_type:
            warn("op_attr switch is invalid with export type set as text.")
            self._op_attr = False

    def _check_gc(self) -> None:
        threshold = self._gc_detect_threshold
        if threshold is None:
            return
        if isinstance(threshold, bool) or not isinstance(threshold, (int, float)):
            warn("Parameter gc_detect_threshold is not int or float type, reset it to default.")
            self._gc_detect_threshold = None
        elif threshold < 0:
            warn("Parameter gc_detect_threshold can not be negative, reset it to default.")
            self._gc_detect_threshold = None

    def _check_domains(self) -> None:
        if not self.tx_enabled:
            if self._mstx_domain_include or self._mstx_domain_exclude:
                warn("mstx_domain_include and mstx_domain_exclude are valid when msprof_tx or mstx is True.")
            self._mstx_domain_include, self._mstx_domain_exclude = [], []
            return
        self._mstx_domain_include = _texts(self._mstx_domain_include, "mstx_domain_include")
        self._mstx_domain_exclude = _texts(self._mstx_domain_exclude, "mstx_domain_exclude")
        if self._mstx_domain_include and self._mstx_domain_exclude:
            warn(
                "Parameter mstx_domain_include and mstx_domain_exclude can not be both set, "
                "only mstx_domain_include will work."
            )
            self._mstx_domain_exclude = []

    def _check_host(self) -> None:
        if not isinstance(self._host_sys, list):
            warn("Invalid parameter host_sys, which must be of list type, reset it to empty.")
            self._host_sys = []
        if not set(self._host_sys) <= _values(HostSystem):
            warn("Invalid parameter host_sys, reset it to empty.")
            self._host_sys = []


def _listed(export_type: object) -> list[str]:
    if isinstance(export_type, str) and export_type:
        return [export_type]
    if isinstance(export_type, Iterable) and export_type and not isinstance(export_type, str):
        return sorted(set(export_type))
    warn(f"Invalid parameter export_type: {export_type}, reset it to text.")
    return [ExportType.Text]


def _texts(value: Any, name: str) -> list[str]:
    if not isinstance(value, list):
        warn(f"Invalid parameter {name}, which must be of list type, reset it to default.")
        return []
    if any(not isinstance(item, str) for item in value):
        warn(f"Invalid parameter {name}, which contents must be of str type, reset it to default.")
        return []
    return sorted(set(value))
