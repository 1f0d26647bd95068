"""The engines, in the order in which they are tried; those that are slow to build come last."""

from __future__ import annotations

from jumar.tune.engines.base import Engine
from jumar.tune.engines.eager import Eager
from jumar.tune.engines.inductor.engine import Inductor
from jumar.tune.engines.kernels.engine import Kernels
from jumar.tune.engines.onnxruntime.engine import OnnxRuntime
from jumar.tune.engines.openvino.engine import OpenVino
from jumar.tune.model.machine import Machine
from jumar.tune.providers.operators import Operators

ENGINES: tuple[Engine, ...] = (Eager(), OpenVino(), OnnxRuntime(), Kernels(), Inductor(), Operators())


def engines_on(machine: Machine) -> list[Engine]:
    """Return the engines for the device of `machine`, whether what they need is installed or not."""
    return [engine for engine in ENGINES if machine.device in engine.devices]
