"""Opt-in rewrites to what an NPU computes faster, each proven equal."""

from __future__ import annotations

from types import ModuleType

from jumar.migrate.rules.affinity import (
    activation,
    attention,
    channel_shuffle,
    drop_path,
    focus,
    library_counterpart,
    masked_assignment,
    rms_norm,
    rotary,
    swiglu,
)

MODULES: tuple[ModuleType, ...] = (
    channel_shuffle,
    focus,
    attention,
    activation,
    rms_norm,
    rotary,
    swiglu,
    masked_assignment,
    drop_path,
    library_counterpart,
)
"""Modules with a `RULE` and a `check`, in the order they run."""
