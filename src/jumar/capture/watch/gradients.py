"""Backward rows of modules and loss rows, from tensor hooks and the calls of `backward`.

`grad_output` is the gradient of a module's outputs, `grad_input` the gradient that reached its input
tensors: where a tensor is used elsewhere too (a residual connection), the sum over all its uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from jumar.capture.notes.patches import Patches

if TYPE_CHECKING:
    from jumar.capture.notes.calls import Site

Tensor = torch.Tensor


class Pending:
    """The backward of one module call: which gradients have arrived."""

    __slots__ = ("call", "missing", "names", "site")

    def __init__(self, site: Site, names: set[str]) -> None:
        self.site = site
        self.names = frozenset(names)
        self.missing = set(names)
        self.call: Any = None


class GradientHooks:
    """Puts hooks on the tensors of module calls; `on_gradient` is told each gradient as it arrives."""

    def __init__(
        self, on_gradient: Callable[[Pending, str, Tensor | None], None], site_of: Callable[[str, str], Site]
    ) -> None:
        """`site_of` gives the site of a module's backward rows, by its path and class."""
        self._on_gradient = on_gradient
        self._site_of = site_of
        self._leaf_handles: list[Any] = []

    def attach(self, path: str, kind: str, inputs: list[tuple[str, Tensor]], outputs: list[tuple[str, Tensor]]) -> None:
        """Watch the gradients of these tensors of a call of module `path` (names `input.0`, `output.0`)."""
        watched = [(f"grad_{name}", tensor) for name, tensor in (*outputs, *inputs) if tensor.requires_grad]
        if not any(name.startswith("grad_output") for name, _ in watched):
            return
        pending = Pending(self._site_of(path, kind), {name for name, _ in watched})
        for name, tensor in watched:
            self.hook(pending, name, tensor)

    def end_step(self) -> None:
        """Take the hooks off tensors that outlive their graph (leaves); others go with their graph."""
        for handle in self._leaf_handles:
            handle.remove()
        self._leaf_handles = []

    def hook(self, pending: Pending, name: str, tensor: Tensor) -> None:
        """Watch the gradient of one tensor, which belongs to `pending`."""
        on_gradient = self._on_gradient

        def hook(gradient: Tensor | None) -> None:
            on_gradient(pending, name, gradient)

        handle = tensor.register_hook(hook)  # type: ignore[no-untyped-call]
        if tensor.is_leaf:
            self._leaf_handles.append(handle)


class LossWatch:
    """Tells what `backward` is called on, before any loss scaling, and when backward passes start and end."""

    def __init__(
        self, on_loss: Callable[[Tensor], None], enter_backward: Callable[[], None], leave_backward: Callable[[], None]
    ) -> None:
        self._on_loss = on_loss
        self._enter, self._leave = enter_backward, leave_backward
        self._unscaled = WeakTensorKeyDictionary()
        self._patches = Patches()

    def start(self) -> None:
        """Begin to watch `Tensor.backward`, `torch.autograd.backward` and `torch.autograd.grad`."""
        self._patches.around(torch.autograd, "backward", self._around_backward)
        self._patches.around(torch.autograd, "grad", self._around_grad)
        scale = torch.amp.GradScaler.scale
        unscaled = self._unscaled

        def scale_and_remember(scaler: Any, outputs: Any) -> Any:
            scaled = scale(scaler, outputs)
            if isinstance(outputs, Tensor) and isinstance(scaled, Tensor) and scaled is not outputs:
                unscaled[scaled] = outputs.detach()
            return scaled

        self._patches.replace(torch.amp.GradScaler, "scale", scale_and_remember)

    def stop(self) -> None:
        """Take the wrappers away."""
        self._patches.restore()

    @contextmanager
    def _around_backward(self, tensors: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        for tensor in (tensors,) if isinstance(tensors, Tensor) else tuple(tensors):
            if isinstance(tensor, Tensor):
                self._on_loss(self._unscaled.get(tensor, tensor))  # type: ignore[no-untyped-call]
        with self._around_grad():
            yield

    @contextmanager
    def _around_grad(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            self._leave()
