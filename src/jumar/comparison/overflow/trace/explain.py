"""Decides whether a call makes NaN and Inf itself or passes on what it read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from jumar.comparison.measure.scales import elements, num_nonfinite
from jumar.comparison.model.kinds import VIEWS
from jumar.comparison.overflow.trace import semantics
from jumar.recording.schema import CallRow, TensorRow

if TYPE_CHECKING:
    Arrays = Mapping[str, np.ndarray]

Sign = Literal["-", "+", "?"]
Load = Callable[[CallRow], "Arrays | None"]
"""Returns the whole tensors of a call by name, None where they were not recorded."""


@dataclass(frozen=True, slots=True)
class Bad:
    """An input with NaN or Inf elements."""

    tensor: TensorRow
    sign: Sign
    """Of its infinities; `?` where it is not known or both occur."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the non-finite elements of an output are made by the call, inherited, or both."""

    own: bool
    inherited: bool
    exact: bool = False


def judge(row: CallRow, operator: str, output: TensorRow, bad: Sequence[Bad], arrays: Arrays | None) -> Verdict:
    """Return whether the call made the NaN and Inf elements of `output`; `bad` are the inputs that have some.

    With whole tensors an elementwise operator is judged place by place. With statistics the elements are counted: the
    call made those that the inputs cannot account for. An input that the operator absorbs (a mask of -Inf that `exp`
    reads) accounts for none.
    """
    explaining = [item for item in bad if not absorbs(operator, item)]
    if not explaining:
        return Verdict(own=True, inherited=False)
    if arrays is not None and operator in semantics.ELEMENTWISE:
        found = _by_place(operator, output, explaining, arrays)
        if found is not None:
            return found
    if exceeds_exponent(row, operator, output) and all(item.sign == "?" for item in explaining):
        return Verdict(own=True, inherited=False)
    if operator in semantics.ELEMENTWISE and num_nonfinite(output) > _budget(output, explaining):
        return Verdict(own=True, inherited=True)
    return Verdict(own=False, inherited=True)


def absorbs(operator: str, bad: Bad) -> bool:
    """Return whether non-finite elements of this input make none in the output."""
    if bad.tensor.num_nan:
        return operator == "nan_to_num"
    if operator in semantics.ABSORBS_BOTH:
        return True
    return bad.sign == "-" and operator in semantics.ABSORBS_NEGATIVE


def exceeds_exponent(row: CallRow, operator: str, output: TensorRow) -> bool:
    """Return whether the greatest finite argument of an exponential is beyond what the output's type holds."""
    limit = semantics.EXP_LIMIT.get(operator, {}).get(output.dtype)
    argument = next((tensor.maximum for tensor in row.inputs[:1]), None)
    return limit is not None and argument is not None and argument > limit


def sign_after(operator: str, bad: Sequence[Bad], output: TensorRow) -> Sign:
    """Return the sign that the infinities of an output have, given those of the inputs."""
    if output.num_nan and not output.num_inf:
        return "?"
    if operator in {"exp", "exp2", "cosh", "square"}:
        return "+"
    signs = {item.sign for item in bad}
    keeps = operator in semantics.KEEPS_SIGN or operator in VIEWS
    if not keeps or len(signs) != 1 or (operator == "sub" and bad[0].tensor.name != "input.0"):
        return "?"
    return signs.pop()


def sign_of_literal(row: CallRow) -> Sign:
    """Return the sign of the infinities that a call's own arguments put into its output."""
    found = {math.copysign(1.0, value) for value in semantics.literals(row) if math.isinf(value)}
    return "?" if len(found) != 1 else "-" if found == {-1.0} else "+"


def sign_in(array: np.ndarray) -> Sign:
    """Return the sign of an array's infinities."""
    infinite = array[np.isinf(array)]
    if not infinite.size or np.iscomplexobj(infinite):
        return "?"
    return "-" if (infinite < 0).all() else "+" if (infinite > 0).all() else "?"


def _budget(output: TensorRow, bad: Sequence[Bad]) -> float:
    """Return how many elements of the output the inputs' elements can reach by broadcasting."""
    total = 0.0
    for item in bad:
        size = elements(item.tensor)
        spread = max(elements(output) / size, 1.0) if size else 0.0
        total += num_nonfinite(item.tensor) * spread
    return total


def _by_place(operator: str, output: TensorRow, explaining: Sequence[Bad], arrays: Arrays) -> Verdict | None:
    """Judge element by element; None where the shapes do not show which elements belong together."""
    result = arrays.get(output.name)
    if result is None:
        return None
    reached = np.zeros(result.shape, bool)
    for item in explaining:
        array = arrays.get(item.tensor.name)
        if array is None:
            return None
        wrong = ~np.isfinite(array)
        if item.sign == "?" and operator in semantics.ABSORBS_NEGATIVE:
            wrong &= ~np.isneginf(array)
        try:
            reached |= np.broadcast_to(wrong, result.shape)
        except ValueError:
            return None
    own = ~np.isfinite(result) & ~reached
    return Verdict(own=bool(own.any()), inherited=bool((~np.isfinite(result) & reached).any()), exact=True)
