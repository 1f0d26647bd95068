"""Engines, one file each behind `Engine`."""

from __future__ import annotations

from jumar.tune.engines.base import Engine, GraphFunction, Precision, Settings, Site
from jumar.tune.engines.eager import Eager
from jumar.tune.engines.inductor import Inductor
from jumar.tune.engines.kernels import Kernels
from jumar.tune.engines.onnxruntime import OnnxRuntime
from jumar.tune.engines.openvino import OpenVino
from jumar.tune.engines.operators import Operators
from jumar.tune.machine import Machine

__all__ = ["ENGINES", "Engine", "GraphFunction", "Precision", "Settings", "Site", "engines_on"]

ENGINES: tuple[Engine, ...] = (Eager(), OpenVino(), OnnxRuntime(), Kernels(), Inductor(), Operators())
"""In the order in which they are tried; those that are slow to build come last."""


def engines_on(machine: Machine) -> list[Engine]:
    """Return the engines for the device of `machine`, whether what they need is installed or not."""
    return [engine for engine in ENGINES if machine.device in engine.devices]
