"""Rules about the runs of `jumar port` as a whole."""

from jumar.port.rules.emulated_device import RULE as EMULATED_DEVICE
from jumar.port.rules.few_steps import RULE as FEW_STEPS
from jumar.port.rules.not_covered import RULE as NOT_COVERED
from jumar.port.rules.npu_run_failed import RULE as NPU_RUN_FAILED
from jumar.port.rules.reference_run_failed import RULE as REFERENCE_RUN_FAILED

__all__ = ["EMULATED_DEVICE", "FEW_STEPS", "NOT_COVERED", "NPU_RUN_FAILED", "REFERENCE_RUN_FAILED"]
