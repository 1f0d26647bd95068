"""SGD, Adam, AdamW, Adadelta and RMSprop: the options, checks and state dictionaries of `torch.optim`, flat steps."""

from __future__ import annotations

from typing import Any

import torch

from jumar.amp.flat.formulas.adadelta import AdadeltaFormula
from jumar.amp.flat.formulas.adam import AdamFormula
from jumar.amp.flat.formulas.formula import Formula
from jumar.amp.flat.formulas.rmsprop import RMSpropFormula
from jumar.amp.flat.formulas.sgd import SGDFormula
from jumar.amp.flat.mixin import FlatOptimizer


class SGD(FlatOptimizer, torch.optim.SGD):
    """`torch.optim.SGD` with steps over flat buffers; see `FlatOptimizer`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        forget_amp_scaling(self)

    def _make_formula(self) -> Formula:
        return SGDFormula()


class Adam(FlatOptimizer, torch.optim.Adam):
    """`torch.optim.Adam` with steps over flat buffers; see `FlatOptimizer`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        forget_amp_scaling(self)

    def _make_formula(self) -> Formula:
        return AdamFormula()


class AdamW(FlatOptimizer, torch.optim.AdamW):
    """`torch.optim.AdamW` with steps over flat buffers; see `FlatOptimizer`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        forget_amp_scaling(self)

    def _make_formula(self) -> Formula:
        return AdamFormula(is_decoupled=True)


class Adadelta(FlatOptimizer, torch.optim.Adadelta):
    """`torch.optim.Adadelta` with steps over flat buffers; see `FlatOptimizer`."""

    def _make_formula(self) -> Formula:
        return AdadeltaFormula()


class RMSprop(FlatOptimizer, torch.optim.RMSprop):
    """`torch.optim.RMSprop` with steps over flat buffers; see `FlatOptimizer`."""

    def _make_formula(self) -> Formula:
        return RMSpropFormula()


def forget_amp_scaling(optimizer: torch.optim.Optimizer) -> None:
    """Let `GradScaler` unscale and check the gradients itself, also for an optimizer made with `fused=True`."""
    optimizer.__dict__.pop("_step_supports_amp_scaling", None)
