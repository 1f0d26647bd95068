"""`Collective`, `Transfer`, `Together`: the handles that collectives return, to wait for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from jumar.npu.core.overloads import tensors_in

Tensor = torch.Tensor
_Work: Any = torch._C._distributed_c10d.Work


class Collective(_Work):  # type: ignore[misc]
    """A collective under way at Gloo; `finish` is called once when it is done."""

    def __init__(self, inner: Any, results: Any, finish: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._inner, self._results, self._finish = inner, results, finish

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is done. Raises RuntimeError with what went wrong."""
        if self._inner is not None:
            self._inner.wait(*(() if timeout is None else (timeout,)))
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        return True

    def is_completed(self) -> bool:
        """Return whether it is done, well or not."""
        return self._inner is None or bool(self._inner.is_completed())

    def get_future(self) -> Any:
        """Return a future that is done: of the npu tensors, or Gloo's own with the error in it.

        NOTE: this waits. DDP's reducer reads the future in C++, where only Gloo's own future can carry an
        error, and PyTorch cannot chain futures of a device whose streams are written in Python.
        """
        try:
            self.wait()
        except RuntimeError:
            return self._inner.get_future()
        future: Any = torch.futures.Future(devices=[torch.device("npu", 0)])
        future.set_result(list(tensors_in((self._results,))))
        return future


class Transfer(_Work):  # type: ignore[misc]
    """A send or receive, which keeps its tensors until it is waited for."""

    def __init__(self, inner: Any, tensors: Any) -> None:
        super().__init__()
        self._inner, self._tensors = inner, tensors

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the tensors are sent or received."""
        return bool(self._inner.wait() if timeout is None else self._inner.wait(timeout))

    def is_completed(self) -> bool:
        """Return whether it is done, well or not."""
        return bool(self._inner.is_completed())


class Together(_Work):  # type: ignore[misc]
    """Several collectives that were started as one."""

    def __init__(self, works: list[Any]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for all of them."""
        for work in self._works:
            work.wait(*(() if timeout is None else (timeout,)))
        return True

    def is_completed(self) -> bool:
        """Return whether all are done."""
        return all(work.is_completed() for work in self._works)
