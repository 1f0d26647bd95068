"""Parameters, gradients and optimizer states in contiguous buffers: `FlatBuffers`, `combine`, `flat_step`."""

from __future__ import annotations

from jumar.amp.flat.buffers import FlatBuffers
from jumar.amp.flat.combining import Combined, buffers_of, combine, flat_step
from jumar.amp.flat.mixin import FlatOptimizer
from jumar.amp.flat.stepper import FlatOutcome

__all__ = ["Combined", "FlatBuffers", "FlatOptimizer", "FlatOutcome", "buffers_of", "combine", "flat_step"]
