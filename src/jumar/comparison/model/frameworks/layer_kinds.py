"""Classes of modules that are one calculation each, by PyTorch's names: what an error becomes in them."""

from __future__ import annotations

_RANKED = {f"{name}{rank}d" for name in ("Conv", "ConvTranspose", "AvgPool") for rank in (1, 2, 3)}

ELEMENTWISE = frozenset(
    "CELU ELU GELU Hardswish LogSigmoid Mish SELU SiLU Sigmoid Softplus Softsign Tanh".split()  # noqa: SIM905 - one line
)
"""One smooth function of each element."""
LINEAR = frozenset({"Linear", "Identity", "Flatten", "Embedding", *_RANKED})
"""Sums and products with parameters."""
SWITCHING = frozenset({"ReLU", "ReLU6", "LeakyReLU", "Dropout", "MaxPool1d", "MaxPool2d", "MaxPool3d"})
"""A rounding difference may switch single elements; others pass."""
NORMS = frozenset({"LayerNorm", "GroupNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "RMSNorm", "Softmax"})
LOSSES = frozenset({"CrossEntropyLoss", "MSELoss", "BCEWithLogitsLoss", "BCELoss", "NLLLoss"})
SMOOTH = ELEMENTWISE | LINEAR | NORMS | LOSSES
"""No single element switches."""


SINGLE = SMOOTH | SWITCHING
"""One calculation: inputs of one shape give results of one shape."""
