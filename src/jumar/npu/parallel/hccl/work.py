"""`Collective`, `Transfer`, `Together`: the handles that collectives return, to wait for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from jumar.npu.core.overloads import tensors_in
from jumar.npu.core.versions.groups import LOSES_WORKS
from jumar.npu.parallel.hccl.futures import done

Tensor = torch.Tensor
_PyTorchWork: Any = torch._C._distributed_c10d.Work
_NUM_KEPT = 256
"""More works than a program has under way; each keeps its tensors."""
_kept: dict[int, Any] = {}
"""By id: what C++ may still wait for, where it does not keep it alive itself."""


class _Work(_PyTorchWork):  # type: ignore[misc]
    """What the works have in common: each is kept until it is waited for, where PyTorch does not see to that."""

    def __init__(self) -> None:
        super().__init__()
        if LOSES_WORKS:
            _kept[id(self)] = self
            if len(_kept) > _NUM_KEPT:
                _kept.pop(next(iter(_kept)), None)

    def _waited_for(self) -> None:
        _kept.pop(id(self), None)


class Collective(_Work):
    """A collective under way at Gloo; `finish` is called once when it is done."""

    def __init__(self, inner: Any, results: Any, finish: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._inner, self._results, self._finish = inner, results, finish

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is done. Raises RuntimeError with what went wrong."""
        self._waited_for()
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
        error.
        """
        try:
            self.wait()
        except RuntimeError:
            return self._inner.get_future()
        return done(list(tensors_in((self._results,))))


class Transfer(_Work):
    """A send or receive, which keeps its tensors until it is waited for."""

    def __init__(self, inner: Any, tensors: Any) -> None:
        super().__init__()
        self._inner, self._tensors = inner, tensors

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the tensors are sent or received."""
        self._waited_for()
        return bool(self._inner.wait() if timeout is None else self._inner.wait(timeout))

    def get_future(self) -> Any:
        """Return a future that is done, of the tensors. It waits; raises RuntimeError with what went wrong."""
        self.wait()
        return done(list(tensors_in((self._tensors,))))

    def is_completed(self) -> bool:
        """Return whether it is done, well or not."""
        return bool(self._inner.is_completed())


class Together(_Work):
    """Several collectives that were started as one."""

    def __init__(self, works: list[Any]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for all of them."""
        self._waited_for()
        for work in self._works:
            work.wait(*(() if timeout is None else (timeout,)))
        return True

    def get_future(self) -> Any:
        """Return a future that is done, of what all of them give. It waits; raises RuntimeError as they do."""
        self._waited_for()
        return done([tensor for work in self._works for tensor in work.get_future().wait()])

    def is_completed(self) -> bool:
        """Return whether all are done."""
        return all(work.is_completed() for work in self._works)
