"""Put another function in place of an operator's CPU kernel: fault injection and experiments."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterator
from typing import Any

from jumar.base.errors import DeviceError
from jumar.npu.core.plans import CPU_KEYS, LAYERS, PLANS, Call, Plan, reset

Replacement = Callable[..., Any]


@contextlib.contextmanager
def override(operator: str, replacement: Replacement) -> Iterator[None]:
    """Within the block, run `replacement(original, *args, **kwargs)` instead of the operator's CPU kernel.

    `operator` is an overload (`aten::add.Tensor`) or all overloads of a name (`aten::add`). The tensors
    are CPU tensors over the npu memory; `original(*args, **kwargs)` is the kernel that was there before,
    and results must have its form. Overrides nest. Raises DeviceError for an operator that the device
    does not run itself, because PyTorch composes it of others (`aten::linear`, views).
    """
    # NOTE: a layer, because kernels are put together again whenever settings change or an observer comes.
    chosen = set(map(id, _plans(operator)))

    def layer(plan: Plan, call: Call) -> Call:
        return _calling(replacement, call) if id(plan) in chosen else call

    LAYERS.append(layer)
    reset()
    try:
        yield
    finally:
        LAYERS.remove(layer)
        reset()


def _plans(operator: str) -> list[Plan]:
    name = operator if "::" in operator else f"aten::{operator}"
    if name in PLANS:
        return [PLANS[name]]
    found = [plan for known, plan in PLANS.items() if known.partition(".")[0] == name]
    if not found:
        close = ", ".join(difflib.get_close_matches(name, PLANS, n=3)) or "aten::addmm"
        raise DeviceError(
            f"the emulated NPU does not run {operator!r} itself, so it cannot be overridden; try {close}."
        )
    return found


def _calling(replacement: Replacement, call: Callable[..., Any]) -> Callable[..., Any]:
    def original(*args: Any, **kwargs: Any) -> Any:
        return call(CPU_KEYS, *args, **kwargs)

    def overridden(_keys: Any, *args: Any, **kwargs: Any) -> Any:
        return replacement(original, *args, **kwargs)

    return overridden
