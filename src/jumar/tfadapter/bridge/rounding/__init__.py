"""Matrix operators in the smaller type that a precision mode asks for."""

from jumar.tfadapter.bridge.rounding.eager import EagerRounding
from jumar.tfadapter.bridge.rounding.graph import PREFIX, RoundedGraph, rounded_graph
from jumar.tfadapter.bridge.rounding.modes import keep_dtype_scope, set_device_sat_mode
from jumar.tfadapter.bridge.rounding.rounding import MATRIX, Rounding, rounding_of

__all__ = [
    "MATRIX", "PREFIX", "EagerRounding", "RoundedGraph", "Rounding", "keep_dtype_scope", "rounded_graph",
    "rounding_of", "set_device_sat_mode",
]  # fmt: skip
