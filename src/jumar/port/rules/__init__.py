"""Rules about the runs of `jumar port` as a whole."""

from jumar.port.rules.emulated_device import RULE as EMULATED_DEVICE
from jumar.port.rules.fell_back import RULE as FELL_BACK
from jumar.port.rules.few_steps import RULE as FEW_STEPS
from jumar.port.rules.module_not_converted import RULE as MODULE_NOT_CONVERTED
from jumar.port.rules.no_training_compared import RULE as NO_TRAINING_COMPARED
from jumar.port.rules.not_covered import RULE as NOT_COVERED
from jumar.port.rules.not_on_the_device import RULE as NOT_ON_THE_DEVICE
from jumar.port.rules.npu_run_failed import RULE as NPU_RUN_FAILED
from jumar.port.rules.other_number_of_devices import RULE as OTHER_NUMBER_OF_DEVICES
from jumar.port.rules.reference_run_failed import RULE as REFERENCE_RUN_FAILED

__all__ = ["EMULATED_DEVICE", "FELL_BACK", "FEW_STEPS", "MODULE_NOT_CONVERTED", "NOT_COVERED", "NOT_ON_THE_DEVICE"]
__all__ += ["NO_TRAINING_COMPARED", "NPU_RUN_FAILED", "OTHER_NUMBER_OF_DEVICES", "REFERENCE_RUN_FAILED"]
