"""The performance rules, one file each; `CHECKERS` are their mechanisms, `RULES` their documentation."""

from __future__ import annotations

from jumar.performance.checker import Checker
from jumar.performance.rules.changing_shapes import ChangingShapes
from jumar.performance.rules.copy_to_device_in_module import CopyToDeviceInModule
from jumar.performance.rules.dtype_cast import DtypeCast
from jumar.performance.rules.host_fallback import HostFallback
from jumar.performance.rules.host_synchronisation import HostSynchronisation
from jumar.performance.rules.non_contiguous_copy import NonContiguousCopy
from jumar.performance.rules.repeated_computation import RepeatedComputation
from jumar.performance.rules.single_tensor_optimizer import SingleTensorOptimizer
from jumar.performance.rules.small_operators import SmallOperators
from jumar.performance.rules.step_gap import StepGap
from jumar.performance.rules.unaligned_matmul import UnalignedMatmul
from jumar.performance.rules.wide_dtype import WideDtype
from jumar.rules import Rule

CHECKERS: tuple[type[Checker], ...] = (
    HostFallback,
    NonContiguousCopy,
    ChangingShapes,
    DtypeCast,
    WideDtype,
    HostSynchronisation,
    SmallOperators,
    SingleTensorOptimizer,
    UnalignedMatmul,
    StepGap,
    RepeatedComputation,
    CopyToDeviceInModule,
)
"""In the order of their codes."""

RULES: tuple[Rule, ...] = tuple(checker.rule for checker in CHECKERS)

__all__ = ["CHECKERS", "RULES"]
