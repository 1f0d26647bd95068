"""Messages of the profiler to the user, as log lines. The profiler never stops a run."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

LOGGER = logging.getLogger("torch_npu.profiler")
F = TypeVar("F", bound=Callable[..., Any])


def warn(sentence: str) -> None:
    """Tell the user that an argument was replaced, or a call did nothing."""
    LOGGER.warning(sentence)


def warned_bool(name: str, value: Any, instead: bool = False) -> bool:
    """Return `value` if it is a bool, else `instead` after a warning."""
    if isinstance(value, bool):
        return value
    warn(f"Parameter {name} is of boolean type, reset it to {instead}.")
    return instead


def never_raises(function: F) -> F:
    """Log what a method of the profiler raises, as the vendor's does: the training goes on."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception:  # a profiler must not end the run it looks at
            LOGGER.exception("Call %s failed.", function.__name__)
            return None

    return call  # type: ignore[return-value]
