"""Says in words and figures what happened at an origin, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jumar.comparison.measure.scales import elements
from jumar.comparison.model.kinds import of
from jumar.comparison.model.words import number
from jumar.comparison.overflow.trace import semantics
from jumar.comparison.overflow.trace.walk import Source
from jumar.operators import named
from jumar.recording.schema import CallRow, TensorRow

SINGULAR = named("singular")
"""Operators whose derivative is infinite or undefined at a point where they themselves are finite (or not)."""

_EPSILON = "Add an epsilon, or clamp the argument away from that point, before the operator."


class Cause(NamedTuple):
    """What happened and what to do."""

    what: str
    action: str


_MAKERS: dict[str, Callable[[CallRow, TensorRow], Cause | None]] = {}
"""Operator to the function that finds its cause, for operators with special causes."""


def cause_of(source: Source, rows: Sequence[CallRow]) -> Cause:
    """Return the cause; `rows` are those of the step, to look for the forward operator of a gradient."""
    if source.kind == "unseen" and source.tensor.name.startswith("grad_output"):
        return _BEGINS
    from_outside = _OUTSIDE.get(source.kind)
    if from_outside is not None:
        return from_outside
    row, operator = source.row, semantics.operator_of(source.row.name)
    maker = _MAKERS.get(operator)
    found = maker(row, source.tensor) if maker is not None else None
    if found is None:
        found = _general(row, source.tensor)
    if row.phase == "backward":
        forward = _singular_forward(row, rows)
        if forward is not None:
            return Cause(f"{found.what}; it is the derivative of {forward.name} on that line", _EPSILON)
    return found


_OUTSIDE = {
    "constant": Cause(
        "an Inf that the program itself puts there", "Use it only where softmax, max or where absorbs it."
    ),
    "uninitialised": Cause("memory that nobody had written", "Fill the tensor (torch.zeros) before it is read."),
    "data": Cause("the data hold it: no operator made it", "Look at this batch: filter or repair the samples."),
    "parameter": Cause(
        "the parameter holds it before the step begins: the checkpoint, the initialisation or an earlier update",
        "Check the checkpoint (`jumar dump list FILE`), or record from an earlier step on.",
    ),
    "state": Cause(
        "a buffer or state holds it before the step begins", "Look at what fills this buffer, or record earlier steps."
    ),
    "unseen": Cause(
        "it was written where the observer could not see (another thread, NumPy, a compiled region)",
        "Read what the recording says is not covered.",
    ),
    "peer": Cause("it came with a collective from another rank", "Look at the rank on which it arises."),
}


_BEGINS = Cause(
    "the gradient holds it when it arrives: the scaled loss overflows, or a call outside of all modules made it",
    "Lower the loss scale, or compute the loss in float32.",
)


@of(_MAKERS, *semantics.EXP_LIMIT)
def _exponential(row: CallRow, output: TensorRow) -> Cause | None:
    operator = semantics.operator_of(row.name)
    limit = semantics.EXP_LIMIT[operator].get(output.dtype)
    greatest = row.inputs[0].maximum if row.inputs else None
    if limit is None or greatest is None:
        return None
    return Cause(
        f"{operator} of {number(greatest, 4)} leaves {output.dtype}, whose greatest argument is {number(limit, 4)}",
        "Subtract the greatest element first (softmax does), or clamp the argument.",
    )


@of(_MAKERS, "log", "log2", "log10", "log1p")
def _logarithm(row: CallRow, output: TensorRow) -> Cause | None:
    lowest = row.inputs[0].minimum if row.inputs else None
    if lowest is None:
        return None
    if output.num_nan:
        return Cause(f"the logarithm of a negative number ({number(lowest)})", _EPSILON)
    return Cause(f"the logarithm of 0 ({output.num_inf} elements)", _EPSILON)


@of(_MAKERS, "sqrt", "rsqrt")
def _root(row: CallRow, output: TensorRow) -> Cause | None:
    operator = semantics.operator_of(row.name)
    lowest = row.inputs[0].minimum if row.inputs else None
    if lowest is None:
        return None
    if output.num_nan:
        return Cause(
            f"{operator} of a negative number ({number(lowest)})",
            "Clamp the argument at 0, or find why it is negative.",
        )
    return Cause(f"{operator} of 0", _EPSILON)


@of(_MAKERS, "SqrtGrad")
def _derivative_of_root(row: CallRow, output: TensorRow) -> Cause | None:
    """Find the cause in TensorFlow's operator for it: half of the gradient, divided by the root."""
    del output
    lowest = row.inputs[0].minimum if row.inputs else None
    return Cause("the derivative of sqrt at 0", _EPSILON) if lowest == 0 else None


@of(_MAKERS, "div", "true_divide", "reciprocal", "addcdiv", "remainder", "fmod")
def _division(row: CallRow, output: TensorRow) -> Cause | None:
    operator = semantics.operator_of(row.name)
    divisor = row.inputs[0] if operator == "reciprocal" else row.inputs[1] if len(row.inputs) > 1 else None
    if divisor is None:
        return Cause("a division by zero", _EPSILON) if 0.0 in semantics.literals(row) else None
    if divisor.minimum is None or divisor.maximum is None:
        return None
    if divisor.minimum <= 0 <= divisor.maximum:
        both = "0 / 0" if output.num_nan and not output.num_inf else "a division by zero"
        return Cause(f"{both} ({divisor.name} ranges from {_range(divisor)})", _EPSILON)
    return Cause(
        f"a division by a number as small as {number(min(abs(divisor.minimum), abs(divisor.maximum)))} leaves "
        f"{output.dtype}",
        _EPSILON,
    )


@of(_MAKERS, "pow")
def _power(row: CallRow, output: TensorRow) -> Cause | None:
    base = row.inputs[0] if row.inputs else None
    exponent = next(iter(semantics.literals(row)), None)
    if exponent is None and len(row.inputs) > 1:  # other frameworks give a tensor
        exponent = row.inputs[1].minimum if row.inputs[1].minimum == row.inputs[1].maximum else None
    if base is None or base.minimum is None or exponent is None:
        return None
    if output.num_nan and base.minimum < 0 and exponent != int(exponent):
        return Cause(f"the power {number(exponent)} of a negative number ({number(base.minimum)})", _EPSILON)
    if exponent < 0 and base.minimum <= 0 <= (base.maximum or 0.0):
        return Cause(f"the power {number(exponent)} of 0", _EPSILON)
    return None


@of(_MAKERS, "_to_copy", "copy")
def _cast(row: CallRow, output: TensorRow) -> Cause | None:
    source = row.inputs[-1] if row.inputs else None
    greatest = semantics.magnitude(source) if source is not None else None
    if source is None or greatest is None or source.dtype == output.dtype:
        return None
    return Cause(
        f"{number(greatest, 5)} does not fit into {output.dtype}, whose greatest number is {_largest(output)}",
        "Keep this tensor in float32 or bfloat16.",
    )


@of(_MAKERS, "softmax", "log_softmax", "scaled_dot_product_attention")
def _masked_row(row: CallRow, output: TensorRow) -> Cause | None:
    if not (row.inputs and row.inputs[0].num_inf):
        return None
    length = output.shape[_dimension(row)] if output.shape else 1
    return Cause(
        f"a row of {length} elements that are all -Inf (everything in it is masked) has no softmax",
        "Let no row be masked entirely, or fill with the type's lowest number instead of -Inf.",
    )


def _dimension(row: CallRow) -> int:
    found = [int(value) for value in semantics.literals(row) if value == int(value)]
    rank = len(row.inputs[0].shape)
    return found[0] if found and -rank <= found[0] < rank else -1


@of(_MAKERS, "var", "std", "var_mean", "std_mean")
def _variance(row: CallRow, output: TensorRow) -> Cause | None:
    if not row.inputs:
        return None
    count = elements(row.inputs[0]) / max(elements(output), 1)
    if count > 1 or not output.num_nan:
        return None
    return Cause(
        "the variance of one element, 0 / 0", "Use correction=0, or more than one element in a group (a larger batch)."
    )


@of(_MAKERS, "native_batch_norm")
def _batch_norm(row: CallRow, _output: TensorRow) -> Cause | None:
    shape = row.inputs[0].shape if row.inputs else ()
    if len(shape) < 2 or not shape[1]:
        return None
    count = elements(row.inputs[0]) // shape[1]
    if count > 1:
        return None
    return Cause(
        "a batch norm over one element a channel, whose variance is 0 / 0", "Use a larger batch, or eval mode."
    )


def _general(row: CallRow, output: TensorRow) -> Cause:
    """Say how great the inputs are and where the type ends."""
    sizes = [size for tensor in row.inputs if (size := semantics.magnitude(tensor)) is not None]
    inputs = f"inputs up to {number(max(sizes), 4)}" if sizes else "finite inputs"
    if output.num_nan and not output.num_inf:
        return Cause(f"NaN out of {inputs}", "Run this operator alone on its inputs: jumar record --values tensors.")
    return Cause(
        f"{inputs} give more than {_largest(output)}, the greatest {output.dtype}",
        "Run it in float32 or bfloat16, or scale its inputs down.",
    )


def _largest(tensor: TensorRow) -> str:
    largest = semantics.largest_of(tensor.dtype) or math.inf
    return f"{largest:.0f}" if largest < 1e6 else number(largest)


def _range(tensor: TensorRow) -> str:
    return f"{number(tensor.minimum)} to {number(tensor.maximum)}"


def _singular_forward(row: CallRow, rows: Sequence[CallRow]) -> CallRow | None:
    """Return the forward operator on the line of a gradient whose derivative is not defined everywhere."""
    if not row.source:
        return None
    candidates = [
        other
        for other in rows
        if other.kind == "op"
        and other.phase == "forward"
        and other.source == row.source
        and other.module_path == row.module_path
        and semantics.operator_of(other.name) in SINGULAR
    ]
    return candidates[0] if len({other.name for other in candidates}) == 1 else None


def saturation_cause(row: CallRow, output: TensorRow, value: float, certain: bool) -> str:
    """Return how an output came to the end of its type."""
    sizes = [size for tensor in row.inputs if (size := semantics.magnitude(tensor)) is not None]
    inputs = f"inputs up to {number(max(sizes), 4)}" if sizes else "finite inputs"
    end = f"{number(value, 5)}, " + ("where" if certain else "at or near where") + f" {output.dtype} ends"
    return f"{inputs} give {end}"
