"""Sets of canonical operator names by kind, made from `jumar.operators`.

Comparing works on canonical names (`jumar.operators.canonical_name`): no namespace, no overload, no underscore of an
in-place operator, one name for the variants of a kernel. The sets are made once: they are asked for every call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jumar.operators import named, undefined_outputs

VIEWS = named("aliases")
"""Outputs alias the input; nothing is calculated."""

COPIES = named("copies")
"""The values are moved or cast, nothing else."""

TRANSPORT = VIEWS | COPIES
"""Operators that devices insert or leave out freely. A missing one is not reported."""

QUERIES = named("query", "to_host")
"""Nothing is calculated: the host asks for a number or a choice."""

CONSTANTS = named("fill", "factory") - named("random")
"""Nothing is read: outputs hold zeros, ones or a sequence of numbers."""

UNINITIALISED = named("uninitialised")
"""Outputs hold whatever was in memory."""

ADOPTING = named("adopting")
"""Outputs show memory that came from elsewhere (a storage, another process). Their inputs say nothing about it."""

OVERWRITING = named("overwriting")
"""In place, these do not read the first argument."""

EXACT = named("exact")
"""Given equal inputs, every device must return equal outputs."""

MOVING = named("transport", "bounded")
"""No element of an output is off by more than the worst element of the inputs."""

SELECTIVE = named("selective")
"""Not continuous: a rounding difference of the input may switch single elements of the output completely."""

DIVIDING = named("dividing")
"""Ill-conditioned where the argument comes near zero."""

EXPONENTIAL = named("exponential")
"""An absolute error of the argument becomes a relative error of the result."""

LINEAR = named("linear")
"""An error of an input reaches the output in proportion."""

SHUFFLING = named("shuffling")
"""The elements only change places, so that statistics of an output do not show an error."""

PRODUCTS = named("product") - named("backward")
"""Matrix products."""

CONVOLUTIONS = named("convolution")

SOFTMAXES = named("softmax")

REGION = "region"
"""Canonical name of a calculation that the two runs make with different operators."""

SCALER_CHECK = "_amp_foreach_non_finite_check_and_unscale"
"""`torch.amp.GradScaler` asks with this operator whether gradients are finite."""

SILENT_WRITES = {"native_batch_norm": ("input.3", "input.4")}
"""Inputs that an operator writes without returning them: running statistics."""

OPAQUE = {name: tuple(f"output.{place}" for place in places) for name, places in undefined_outputs().items()}
"""Outputs in which elements are not defined, by operator: they are not compared."""

# Classes of modules that are one calculation each, by PyTorch's names.
ELEMENTWISE_LAYERS = frozenset(
    "CELU ELU GELU Hardswish LogSigmoid Mish SELU SiLU Sigmoid Softplus Softsign Tanh".split()  # noqa: SIM905 - one line
)
"""One smooth function of each element."""
LINEAR_LAYERS = frozenset({
    "Linear", "Identity", "Flatten", "Embedding", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
})  # fmt: skip
"""Sums and products with parameters."""
SWITCHING_LAYERS = frozenset({"ReLU", "ReLU6", "LeakyReLU", "Dropout", "MaxPool1d", "MaxPool2d", "MaxPool3d"})
"""A rounding difference may switch single elements; others pass."""
NORMS = frozenset({"LayerNorm", "GroupNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "RMSNorm", "Softmax"})
LOSSES = frozenset({"CrossEntropyLoss", "MSELoss", "BCEWithLogitsLoss", "BCELoss", "NLLLoss"})
SMOOTH_LAYERS = ELEMENTWISE_LAYERS | LINEAR_LAYERS | NORMS | LOSSES
"""No single element switches."""
SINGLE_LAYERS = SMOOTH_LAYERS | SWITCHING_LAYERS
"""Inputs of one shape give results of one shape."""

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def of(table: dict[str, FunctionT], *operators: str) -> Callable[[FunctionT], FunctionT]:
    """Enter the decorated function into `table` under the names of the operators that it is for."""

    def enter(function: FunctionT) -> FunctionT:
        table.update(dict.fromkeys(operators, function))
        return function

    return enter
