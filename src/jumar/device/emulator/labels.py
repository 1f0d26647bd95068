"""Class labels as int32: the chip's negative log likelihood takes them, PyTorch's CPU kernel takes int64 only."""

from __future__ import annotations

from typing import Any

import torch

from jumar.device.emulator.plans import Call, Plan

_LOSSES = frozenset(f"aten::nll_loss{dims}_{direction}" for dims in ("", "2d") for direction in ("forward", "backward"))


def layer(plan: Plan, call: Call) -> Call:
    """Give int32 labels to the CPU's kernel as int64; an operator without labels keeps its call."""
    if plan.name.partition(".")[0] not in _LOSSES:
        return call
    position = plan.names.index("target")

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        target = args[position] if position < len(args) else kwargs["target"]
        if target.dtype is torch.int32:
            if position < len(args):
                args = (*args[:position], target.long(), *args[position + 1 :])
            else:
                kwargs = {**kwargs, "target": target.long()}
        return call(keys, *args, **kwargs)

    return run
