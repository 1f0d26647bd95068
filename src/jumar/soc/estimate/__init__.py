"""How long an operator would take on an Ascend chip: an analytic estimate from shapes, dtypes and formats.

Nothing here is measured and nothing needs torch. Figures of the chip come from its `SocProfile`; what that
does not hold, and every price that no document gives, is listed by `Hardware.assumed` and in `prices`.
"""

from __future__ import annotations

from jumar.soc.estimate.cost import Core, Cost, Kernel
from jumar.soc.estimate.hardware import Hardware, hardware
from jumar.soc.estimate.operators import operator_cost
from jumar.soc.estimate.prices import Prices, Software, software
from jumar.soc.estimate.shapes import Conversion, OperatorShape, TensorShape
from jumar.soc.estimate.timeline import HostSpan, KernelSpan, StepTimes, Timeline

__all__ = [
    "Conversion",
    "Core",
    "Cost",
    "Hardware",
    "HostSpan",
    "Kernel",
    "KernelSpan",
    "OperatorShape",
    "Prices",
    "Software",
    "StepTimes",
    "TensorShape",
    "Timeline",
    "hardware",
    "operator_cost",
    "software",
]
