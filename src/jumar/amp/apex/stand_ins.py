"""Stand-ins for classes of NVIDIA's apex that are CUDA kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def stand_ins(
    module: str, instead: Mapping[str, str], error: Callable[[str], Exception], where: str = "an NPU"
) -> dict[str, Any]:
    """Return a class for each name in `instead`: a call raises `error` of a text that says what to use."""
    return {name: _stand_in(module, name, advice, error, where) for name, advice in instead.items()}


def _stand_in(module: str, name: str, instead: str, error: Callable[[str], Exception], where: str) -> Any:
    def refuse(_self: Any, *_args: Any, **_kwargs: Any) -> None:
        raise error(f"{module}.{name} requires cuda extensions, which {where} does not have; use {instead}.")

    return type(name, (), {"__init__": refuse, "__doc__": f"NVIDIA's {name}, which raises.", "__module__": module})
