"""`Buffer`: the parameters of one device and dtype in one flat tensor, and their gradients in another."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from jumar.amp.flat.layout import LARGE, in_memory_order, ordered, starts_of, strides_of
from jumar.base.errors import InputError

Tensor = torch.Tensor

# NOTE: getters in C; a loop over `parameter.grad` takes three times as long, and there are three of them in a step.
_BASE: Any = torch._C.TensorBase
_GRADIENT, _VERSION = _BASE.grad.__get__, _BASE._version.__get__
_ADDRESS = torch.Tensor.data_ptr

_NEVER = -1
"""No version: the gradient was not cleared."""


class Buffer:
    """Parameters of one device and dtype in one flat tensor, small ones first.

    `parameter.data` is a view of `flat`. Gradients join `gradient` when they exist; from then on `parameter.grad` is
    a view of it whenever `gather` has run. A gradient that was cleared by `clear` is zero and still no gradient, until
    something is written into it: each view has a version counter of its own, which tells.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = ordered(parameters)
        first = self.parameters[0]
        self.device, self.dtype = first.device, first.dtype
        self.starts, self.length = starts_of(self.parameters)
        self.lengths = [parameter.numel() for parameter in self.parameters]
        self.num_small = sum(length < LARGE for length in self.lengths)
        self.small_end = max(
            (start + length for start, length in zip(self.starts, self.lengths, strict=True) if length < LARGE),
            default=0,
        )
        self.strides = [strides_of(parameter) for parameter in self.parameters]
        self.shapes = [parameter.shape for parameter in self.parameters]
        self.flat = torch.zeros(self.length, dtype=self.dtype, device=self.device)
        self.gradient: Tensor | None = None
        self._views: list[Tensor] = []
        self._cleared: list[int] = [_NEVER] * len(self.parameters)
        self._addresses: list[int] = []
        self._all = (True,) * len(self.parameters)
        self._firsts = torch.tensor(self.starts) if self.device.type == "cpu" and all(self.lengths) else None
        self._move_in(range(len(self.parameters)))

    def view(self, flat: Tensor, position: int) -> Tensor:
        """Return the part of a tensor of the buffer's length that belongs to one parameter, in its shape."""
        # NOTE: `.data` gives the view a version counter of its own.
        return flat.as_strided(self.shapes[position], self.strides[position], self.starts[position]).data

    # Parameters ----------------------------------------------------------------------------------------

    def _move_in(self, positions: Sequence[int]) -> None:
        for position in positions:
            parameter, view = self.parameters[position], self.view(self.flat, position)
            view.copy_(parameter.data)
            parameter.data = view
        self._addresses = list(map(_ADDRESS, self.parameters))

    def is_outgrown(self) -> bool:
        """Return whether a parameter has another device, dtype or shape now; take in those that only moved."""
        addresses = list(map(_ADDRESS, self.parameters))
        if addresses == self._addresses:
            return False
        moved = [position for position, address in enumerate(addresses) if address != self._addresses[position]]
        for position in moved:
            parameter = self.parameters[position]
            if (parameter.device, parameter.dtype, parameter.shape) != (self.device, self.dtype, self.shapes[position]):
                return True
        self._move_in(moved)
        return False

    # Gradients -----------------------------------------------------------------------------------------

    def present(self) -> tuple[bool, ...]:
        """Return, by parameter, whether it has a gradient: not None, and written to since it was cleared."""
        gradients = list(map(_GRADIENT, self.parameters))
        if not self._views:
            return tuple(gradient is not None for gradient in gradients)
        if all(map(operator.is_, gradients, self._views)):
            return self._written()
        return tuple(
            gradient is not None and (gradient is not view or view._version != cleared)
            for gradient, view, cleared in zip(gradients, self._views, self._cleared, strict=True)
        )

    def _written(self) -> tuple[bool, ...]:
        """Return which views were written to since they were cleared."""
        # NOTE: a cleared gradient is zero, so one whose first element is not was written to. One operator over all of
        # them takes a sixth of the time for asking each view's version; zeros and other devices are asked.
        flat, firsts = self.gradient, self._firsts
        if flat is not None and firsts is not None and bool(flat.index_select(0, firsts).all()):
            return self._all
        if not any(map(operator.eq, map(_VERSION, self._views), self._cleared)):
            return self._all
        return tuple(map(operator.ne, map(_VERSION, self._views), self._cleared))

    def gather(self, *, with_large: bool = True) -> tuple[bool, ...]:
        """Move gradients that are elsewhere into the buffer; return which parameters have one.

        Large ones stay where they are with `with_large=False` (`gradient_of` finds them). Raises InputError for a
        sparse gradient, which has no place in a flat buffer.
        """
        gradients = list(map(_GRADIENT, self.parameters))
        if self._views and all(map(operator.is_, gradients, self._views)):
            return self._written()
        if not any(gradient is not None for gradient in gradients):
            return (False,) * len(gradients)
        self._refuse_sparse(gradients)
        self.allocated(with_large=with_large)
        gradients = list(map(_GRADIENT, self.parameters))  # a larger buffer has new views
        self._take(gradients, with_large)
        if with_large:
            self._blank(gradients)
        return self.present()

    def gradient_of(self, position: int) -> Tensor:
        """Return a parameter's gradient in the order of its memory, flat, wherever it lies. It must have one."""
        gradient = self.parameters[position].grad
        assert gradient is not None
        return in_memory_order(gradient.detach())

    def clear(self, *, set_to_none: bool) -> None:
        """Make gradients zero where they lie; with `set_to_none` they count as none, and large ones are None."""
        present = self.present() if not set_to_none else ()
        gradients = list(map(_GRADIENT, self.parameters))
        if self.gradient is None:
            self._clear_loose(gradients, set_to_none)
            return
        if set_to_none:
            self._clear_lazily(gradients)
            return
        self._clear_loose([g if g is not v else None for g, v in zip(gradients, self._views, strict=True)], False)
        self.gradient.zero_()
        self._cleared = [
            _NEVER if there or g is not v else old
            for there, g, v, old in zip(present, gradients, self._views, self._cleared, strict=True)
        ]

    def mark_present(self) -> None:
        """Show every parameter that wants a gradient its part of the flat gradient, and count it as having one."""
        self.allocated()
        for position, parameter in enumerate(self.parameters):
            if parameter.requires_grad:
                parameter.grad = self._views[position]
                self._cleared[position] = _NEVER

    def release(self) -> None:
        """Give every parameter and gradient memory of its own again."""
        present = self.present()
        for parameter, there in zip(self.parameters, present, strict=True):
            gradient = parameter.grad
            parameter.data = parameter.data.clone(memory_format=torch.preserve_format)
            if gradient is not None:
                parameter.grad = gradient.clone(memory_format=torch.preserve_format) if there else None
        self.gradient, self._views = None, []

    def _clear_loose(self, gradients: Sequence[Tensor | None], set_to_none: bool) -> None:
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            if gradient is None:
                continue
            if set_to_none:
                parameter.grad = None
            elif gradient.grad_fn is not None:
                gradient.detach_().zero_()
            else:
                gradient.requires_grad_(False).zero_()

    def _clear_lazily(self, gradients: Sequence[Tensor | None]) -> None:
        assert self.gradient is not None
        self.gradient[: self.small_end].zero_()
        for position, (gradient, view) in enumerate(zip(gradients, self._views, strict=True)):
            if position >= self.num_small:
                self.parameters[position].grad = None
            elif gradient is not None and gradient is not view:
                self.parameters[position].grad = view
        self._cleared = list(map(_VERSION, self._views))

    def allocated(self, *, with_large: bool = True) -> Tensor:
        """Return the flat gradient, made of zeros if it is not there yet: the whole, or only that of small parameters.

        Without a need for the flat gradients of large parameters no memory is taken for them.
        """
        length = self.length if with_large or self.num_small == len(self.parameters) else self.small_end
        if self.gradient is not None and self.gradient.numel() >= length:
            return self.gradient
        before, views, cleared = self.gradient, self._views, self._cleared
        flat = self.gradient = torch.zeros(length, dtype=self.dtype, device=self.device)
        count = len(self.parameters) if length == self.length else self.num_small
        self._views = [self.view(flat, position) for position in range(count)]
        # NOTE: an own object for each large one, which is no parameter's gradient.
        self._views += [flat.new_empty(0) for _ in range(count, len(self.parameters))]
        if before is not None:
            flat[: before.numel()].copy_(before)
            for position, (old, new) in enumerate(zip(views, self._views, strict=True)):
                if self.parameters[position].grad is old:
                    cleared[position] = new._version if cleared[position] == old._version else _NEVER
                    self.parameters[position].grad = new
        return flat

    def _refuse_sparse(self, gradients: Sequence[Tensor | None]) -> None:
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            if gradient is not None and gradient.layout is not torch.strided:
                raise InputError(
                    f"Flat buffers take dense gradients, and the gradient of a parameter of shape "
                    f"{tuple(parameter.shape)} is sparse ({gradient.layout}); make the embedding with sparse=False, or "
                    "give its parameters a torch optimizer of their own (SparseAdam)."
                )

    def _take(self, gradients: list[Tensor | None], with_large: bool) -> None:
        """Copy the gradients that are elsewhere into the buffer and show them there."""
        positions = [
            position
            for position, gradient in enumerate(gradients)
            if gradient is not None
            and gradient is not self._views[position]
            and (with_large or position < self.num_small or not self._fits(position, gradient))
        ]
        if not positions:
            return
        self.allocated(with_large=positions[-1] >= self.num_small)
        views = [self._views[position] for position in positions]
        torch._foreach_copy_(views, [gradients[position].detach() for position in positions])  # type: ignore[union-attr]
        for position, view in zip(positions, views, strict=True):
            self._cleared[position] = _NEVER
            self.parameters[position].grad = view

    def _fits(self, position: int, gradient: Tensor) -> bool:
        """Return whether a gradient has the dtype and the order of elements of its parameter."""
        return gradient.dtype == self.dtype and gradient.stride() == self.strides[position]

    def _blank(self, gradients: Sequence[Tensor | None]) -> None:
        """Make the places of missing gradients zero, for norms and sums over the whole buffer."""
        for position, gradient in enumerate(gradients):
            if gradient is None:
                self._views[position].zero_()
                self._cleared[position] = self._views[position]._version
