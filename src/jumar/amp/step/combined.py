"""`Gradients`: the gradients of a list of parameters, each for itself or in flat buffers (`combine_grad`)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jumar.amp.flat.buffers import FlatBuffers
from jumar.amp.scale.origins import name_of

Tensor = torch.Tensor


class Gradients:
    """Gradients as the operators of amp see them: one tensor a parameter, or one a dtype where they are combined.

    A parameter that no backward pass reached has no gradient (None) either way: optimizers leave it alone.
    """

    def __init__(self, *, combine: bool) -> None:
        self._combine = combine
        self.parameters: list[Tensor] = []
        self._flat: FlatBuffers | None = None
        self._views: list[tuple[int, int]] = []

    def cover(self, parameters: Sequence[Tensor]) -> None:
        """Take these parameters, which may be more than before. Raises InputError for one that cannot be combined."""
        if len(parameters) == len(self.parameters) and all(
            one is other for one, other in zip(parameters, self.parameters, strict=True)
        ):
            return
        gone = {id(parameter) for parameter in self.parameters} - {id(parameter) for parameter in parameters}
        self.parameters = list(parameters)
        if not self._combine or not parameters:
            return
        if self._flat is not None and gone:
            self._flat.release()
            self._flat = None
        if self._flat is None:
            self._flat = FlatBuffers(parameters)
            return
        known = {id(parameter) for parameter in self._flat.parameters}  # the optimizer may have added some by itself
        self._flat.extend(parameter for parameter in parameters if id(parameter) not in known)

    @property
    def buffers(self) -> FlatBuffers | None:
        """The flat buffers; None where nothing is combined."""
        return self._flat

    def all(self) -> list[Tensor]:
        """Return the gradients there are: flat where they are combined, with zeros for parameters without one."""
        if self._flat is not None:
            return self._flat.gradients()
        return [parameter.grad for parameter in self.parameters if parameter.grad is not None]

    def clear(self) -> None:
        """Drop all gradients."""
        if self._flat is not None:
            self._flat.zero_grad()
            return
        for parameter in self.parameters:
            parameter.grad = None

    def settle(self) -> None:
        """Give parameters that no backward pass reached None, and remember where the gradients of the others lie."""
        if self._flat is None:
            return
        for parameter, there in zip(self._flat.parameters, self._flat.present(), strict=True):
            if not there:
                parameter.grad = None
        self._views = self._addresses()

    def _addresses(self) -> list[tuple[int, int]]:
        return [
            (parameter.data_ptr(), 0 if parameter.grad is None else parameter.grad.data_ptr())
            for parameter in self.parameters
        ]

    def check(self) -> None:
        """Raise RuntimeError when a gradient or weight has left its buffer since `settle`."""
        if self._flat is None or not self._views:
            return
        pairs = zip(self.parameters, self._views, self._addresses(), strict=False)
        moved = [parameter for parameter, before, now in pairs if before != now and parameter.numel()]
        if moved:
            parameter = moved[0]
            what = "gradient" if self._views[self.parameters.index(parameter)][0] == parameter.data_ptr() else "weight"
            raise RuntimeError(
                f"check_combined_tensors: the {what} of {name_of(parameter)} ({len(moved)} in all) was replaced "
                "between scale_loss and step, and no longer lies in the combined tensor. Change it in place (mul_, "
                "copy_), or initialize without combine_grad."
            )
