"""What a program says of precision while it runs: operators that keep their type, and what happens on overflow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from jumar.tfadapter.bridge.state import STATE, OptionError
from jumar.tfadapter.checks.subject import family_of

KEEPS = "_jumar_keeps_dtype"
"""Attribute of operators that keep their type."""
_DEPTH = [0]


@contextmanager
def keep_dtype_scope() -> Iterator[None]:
    """Let the operators that are made, or run, in a `with` block keep their type whatever the precision mode."""
    _DEPTH[0] += 1
    try:
        if tf.executing_eagerly():
            yield
        else:
            with tf.compat.v1.get_default_graph()._attr_scope({KEEPS: AttrValue(b=True)}):
                yield
    finally:
        _DEPTH[0] -= 1


def is_kept() -> bool:
    """Tell whether what runs now is in such a block."""
    return _DEPTH[0] > 0


def set_device_sat_mode(mode: int) -> None:
    """Say what becomes of a number that is too large: 0, the largest one; 1, infinite.

    Matrix operators that are rounded from now on follow. Raises OptionError for another value, and for 1 on a first
    chip.
    """
    if mode not in (0, 1):
        raise OptionError(f"set_device_sat_mode({mode!r}): it must be 0 (largest number) or 1 (infinite). Choose one.")
    if mode == 1 and family_of(STATE.soc or "") == "A1":
        raise OptionError(f"set_device_sat_mode(1): {STATE.soc} takes 0 only. Leave the call out.")
    STATE.saturates = mode == 0
