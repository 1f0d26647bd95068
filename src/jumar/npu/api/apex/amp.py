"""`apex.amp` on the npu: `jumar.amp` for models that are on the device."""

from __future__ import annotations

from typing import Any

from jumar.amp import api
from jumar.amp.api import *  # noqa: F403  # the names of api.__all__
from jumar.amp.setup import listed
from jumar.amp.state import STATE as _STATE  # noqa: F401  # one state for the process, under its old name

__all__ = list(api.__all__)


def initialize(models: Any, optimizers: Any = None, enabled: bool = True, *args: Any, **options: Any) -> Any:  # type: ignore[no-redef]
    """Prepare models and optimizers as `jumar.amp.initialize`, which names all options.

    Raises RuntimeError for a model on the CPU too: the vendor's build takes only models on the device.
    """
    for model in listed(models) if enabled else ():
        for name, parameter in model.named_parameters():
            if parameter.is_floating_point() and parameter.device.type == "cpu":
                raise RuntimeError(
                    f"Found param {name} with type {parameter.type()}, expected a parameter on the npu.\nWhen using "
                    "amp.initialize, you need to provide a model with parameters\nlocated on a NPU device before "
                    "passing it no matter what optimization level\nyou chose. Use model.to('npu') to use the default "
                    "device."
                )
    return api.initialize(models, optimizers, enabled, *args, **options)
