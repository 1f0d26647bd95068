"""`EagerRounding`: matrix operators of eager code and of functions round."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np
import tensorflow as tf

from jumar.tfadapter.bridge.rounding.modes import is_kept
from jumar.tfadapter.bridge.rounding.rounding import Rounding

_EAGER = (
    ("gen_math_ops", ("mat_mul", "batch_mat_mul", "batch_mat_mul_v2", "batch_mat_mul_v3")),
    ("gen_linalg_ops", ("einsum",)),
    ("gen_nn_ops", (
        "conv2d", "conv2d_backprop_filter", "conv2d_backprop_input", "conv3d", "conv3d_backprop_filter_v2",
        "conv3d_backprop_input_v2", "depthwise_conv2d_native", "depthwise_conv2d_native_backprop_filter",
        "depthwise_conv2d_native_backprop_input",
    )),
)  # fmt: skip
"""Module of TensorFlow -> its functions of matrix operators; layers and gradients look them up when they call."""


class EagerRounding:
    """Wraps the functions of matrix operators, for eager code and for functions that are traced from now on."""

    def __init__(self, rounding: Rounding) -> None:
        self.rounding = rounding
        self.is_rounding = False
        """Whether what runs now is the rounding itself, and no operator of the program."""
        self._kept: list[tuple[Any, str, Any]] = []

    def start(self) -> None:
        """Wrap."""
        for module, names in _EAGER:
            owner = importlib.import_module(f"tensorflow.python.ops.{module}")
            for name in names:
                if hasattr(owner, name):
                    self._kept.append((owner, name, getattr(owner, name)))
                    setattr(owner, name, self._rounded(getattr(owner, name)))

    def stop(self) -> None:
        """Put back what was wrapped."""
        for owner, name, original in reversed(self._kept):
            setattr(owner, name, original)
        self._kept.clear()

    def _rounded(self, original: Any) -> Any:
        @functools.wraps(original)
        def call(*arguments: Any, **named: Any) -> Any:
            if is_kept():
                return original(*arguments, **named)
            found = original(*map(self._one, arguments), **{name: self._one(value) for name, value in named.items()})
            return self._one(found) if self.rounding.outputs else found

        return call

    def _one(self, value: Any) -> Any:
        """Return an argument or a result, rounded where it is a float32 tensor, or a list of some."""
        if isinstance(value, (list, tuple)) and any(tf.is_tensor(one) for one in value):
            return [self._one(one) for one in value]
        if isinstance(value, (tf.Variable, np.ndarray)) and value.dtype == np.float32:
            value = tf.convert_to_tensor(value)
        if not tf.is_tensor(value) or value.dtype != tf.float32:
            return value
        self.is_rounding = True
        try:
            return self.rounding.round(value)
        finally:
            self.is_rounding = False
