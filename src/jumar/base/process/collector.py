"""The garbage collector put off while much is made that stays."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_at_rest() -> Iterator[None]:
    """Put the garbage collector off: many new objects without cycles make it run again and again.

    Each run looks at all objects of the process, 0.1 s where PyTorch is imported (measured).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
