"""The engines, in the order in which they are tried; those that are slow to build come last."""

from __future__ import annotations

from typing import Any

from jumar.base.plugins import Group
from jumar.tune.engines.base import Engine
from jumar.tune.engines.eager import Eager
from jumar.tune.engines.inductor.engine import Inductor
from jumar.tune.engines.kernels.engine import Kernels
from jumar.tune.engines.onnxruntime.engine import OnnxRuntime
from jumar.tune.engines.openvino.engine import OpenVino
from jumar.tune.model.machine import Machine
from jumar.tune.providers.operators import Operators

_QUICK: tuple[Engine, ...] = (Eager(), OpenVino(), OnnxRuntime())
_LAST: tuple[Engine, ...] = (Kernels(), Inductor(), Operators())
BUILT_IN = (*_QUICK, *_LAST)


def _accept(kind: Any) -> Engine:
    if not (isinstance(kind, type) and issubclass(kind, Engine)):
        raise TypeError("it must name a class derived from jumar.tune.engines.Engine")
    return kind()


INSTALLED = Group("engine", _accept, lambda engine: (engine.name,), lambda: (engine.name for engine in BUILT_IN))
"""The engines of other distributions: an entry point names the class."""

ENGINES: tuple[Engine, ...] = (*_QUICK, *INSTALLED.parts(), *_LAST)
"""NOTE: the installed engines are looked up when this module is imported, which only tuning does."""


def engines_on(machine: Machine) -> list[Engine]:
    """Return the engines for the device of `machine`, whether what they need is installed or not."""
    return [engine for engine in ENGINES if machine.device in engine.devices]
