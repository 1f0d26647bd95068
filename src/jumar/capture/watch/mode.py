"""The dispatch mode: every aten operator below autograd passes through here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

Operator = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class ObserverMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands every operator to `operator(func, args, kwargs)`, which runs it and returns its result.

    PyTorch carries the mode over to the threads of the autograd engine.
    """

    supports_higher_order_operators = True

    def __init__(self, operator: Operator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._operator = operator
        self._entered = False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let `torch.compile` compile as it would without a recording; compiled operators are not seen."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Answer without the import of the compiler, which takes over a second and which PyTorch's default wrapper
        needs."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._operator(func, args, kwargs or {})

    def enter(self) -> None:
        """Put the mode on this thread's stack, unless it is there."""
        if not self._entered:
            self.__enter__()  # type: ignore[no-untyped-call]
            self._entered = True

    def leave_if_on_top(self) -> None:
        """Take the mode off the stack; below another mode it stays, and must pass calls through."""
        if self._entered and _get_current_dispatch_mode() is self:
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            self._entered = False

    def is_on_stack(self) -> bool:
        """Tell whether operators of the calling thread pass through here."""
        num_modes = torch._C._len_torch_dispatch_stack()
        return any(torch._C._get_dispatch_stack_at(index) is self for index in range(num_modes))
