"""What is wrong in a run, and what comparing must answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Kernel = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The right answer: an operator (any of `operators` at this place), or a finding's code, or agreement."""

    operators: tuple[str, ...] = ()
    """Empty where no operators were recorded: the module is the answer."""
    path: str | tuple[str, ...] = ""
    """Module path, or those that would be right: a fault between two modules may show in either."""
    phase: str = "forward"
    step: int = 0
    occurrence: int | None = None
    """Which call of this name, module path and phase; None when there is one, or when any is right."""
    code: str = ""
    """Of the first finding, where no operator is to be named."""


AGREE = Truth()


@dataclass(frozen=True, kw_only=True)
class Case:
    """One pair of runs. `reference` and `target` are the fields of `Training` that differ from the default."""

    name: str
    model: str
    truth: Truth = AGREE
    reference: tuple[tuple[str, Any], ...] = ()
    target: tuple[tuple[str, Any], ...] = ()
    operator: str = ""
    """Whose kernel is wrong; the truth then is the row of the call that was changed."""
    kernel: Kernel | None = None
    share: float = 0.5
    """Where in the step the call is: 0 the first of this operator, 1 the last."""
    phase: str = ""
    """Only calls of this phase count."""
    from_step: int = 0
    """First step in which the kernel is wrong."""
    healthy: bool = False


def scaled(factor: float, output: int | None = None) -> Kernel:
    """Return a kernel whose result (or its `output`-th) is off by a factor."""

    def change(func: Any, args: Any, kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        if isinstance(out, torch.Tensor):
            return out * factor
        return tuple(
            item * factor if isinstance(item, torch.Tensor) and output in {None, place} else item
            for place, item in enumerate(out)
        )

    return change


def _first(out: Any) -> torch.Tensor:
    return out if isinstance(out, torch.Tensor) else out[0]


def wrong_tail(func: Any, args: Any, kwargs: Any) -> Any:
    """The last elements of each row are off, as by a kernel that treats the rest after its tiles wrongly."""
    out = func(*args, **kwargs)
    _first(out)[..., -2:].mul_(1.05)
    return out


def wrong_tile(func: Any, args: Any, kwargs: Any) -> Any:
    """One tile of the result is off."""
    out = func(*args, **kwargs)
    _first(out)[..., :4, :4].mul_(1.1)
    return out


def not_a_number(func: Any, args: Any, kwargs: Any) -> Any:
    """One element is NaN."""
    out = func(*args, **kwargs)
    _first(out).reshape(-1)[:1].fill_(float("nan"))
    return out


def overflowing(func: Any, args: Any, kwargs: Any) -> Any:
    """The result goes through float16 with a scale that its greatest elements do not survive."""
    out = func(*args, **kwargs)
    scale = 90_000.0 / max(float(out.abs().max()), 1e-30)
    return ((out * scale).half().to(out.dtype) / scale).to(out.dtype)


def in_another_order(func: Any, args: Any, kwargs: Any) -> Any:
    """The right elements in other places: the last axis is rolled."""
    return func(*args, **kwargs).roll(1, -1)


def summed_in(dtype: torch.dtype) -> Kernel:
    """Return a kernel of `mm`, `bmm` or `addmm` whose partial sums are rounded to `dtype`."""

    def change(func: Any, args: Any, kwargs: Any) -> Any:
        first, second = args[-2:]
        total = torch.zeros_like(func(*args, **kwargs))
        for k in range(0, first.shape[-1], 4):
            total = (total + first[..., k : k + 4] @ second[..., k : k + 4, :]).to(dtype).to(total.dtype)
        return total if len(args) == 2 else total + args[0]

    return change


def rounded_inputs(func: Any, args: Any, kwargs: Any) -> Any:
    """Multiplies in TensorFloat-32: ten bits of mantissa."""

    def cut(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dtype is not torch.float32:
            return x
        return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

    return func(*[cut(x) for x in args], **kwargs)


def next_row(func: Any, args: Any, kwargs: Any) -> Any:
    """An embedding that reads one row further."""
    return func(args[0], (args[1] + 1) % args[0].shape[0], *args[2:], **kwargs)


def next_gradient_row(func: Any, args: Any, kwargs: Any) -> Any:
    """The gradient of an embedding, added to the next row of the table."""
    return func(args[0], (args[1] + 1) % args[2], *args[2:], **kwargs)


def without_update(func: Any, args: Any, kwargs: Any) -> Any:
    """A batch norm that leaves the running statistics as they were."""
    mean, variance = args[3], args[4]
    return func(*args[:3], mean.clone(), variance.clone(), *args[5:], **kwargs)


def unscaled(func: Any, args: Any, kwargs: Any) -> Any:
    """A division that does not divide."""
    return args[0].clone()
