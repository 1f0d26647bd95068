"""Which operators are tuned, and why others are not.

Tuned are the operators with the trait `tuned`: a model spends its time in them, they are pure (same inputs, same
outputs, nothing written), and their inputs may hold any random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from jumar.base.findings import Json
from jumar.operators import draws, has

_PROBABILITIES = ("dropout_p", "dropout")


def reason_not_tuned(operator: str, arguments: Mapping[str, Json]) -> str:
    """Return why a call is no task, as the end of the sentence "… is not tuned: "; empty when it is one."""
    if not operator.startswith("aten::") or not has(operator, "tuned"):
        return "it is not among the operators that are tuned so far"
    if draws(operator, arguments):
        name = next((name for name in _PROBABILITIES if arguments.get(name)), "")
        return f"it draws random numbers ({name} is {arguments[name]})" if name else "it draws random numbers"
    return ""
