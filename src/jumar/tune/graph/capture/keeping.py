"""What a model keeps from call to call, noted before a call and put back after it: `Kept`.

A model's `forward` may add hooks at its first call, fill a cache, count its calls, or draw from a generator of its own.
A capture calls it several times, and the user's model must not show that.
"""

from __future__ import annotations

import os
import random
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module as global_hooks

MOST_OBJECTS = 200_000
"""So many objects are looked at; a data set that a model holds must not cost minutes."""
MOST_BYTES = 1 << 30
"""So many bytes of tensors that are neither parameters nor buffers are copied."""
_NOT_ENTERED = ("torch", "threading", "logging", "weakref", "concurrent", "multiprocessing", "importlib", "builtins")
"""Packages whose objects are left alone: what they keep is the process's, not the model's."""
_WITHOUT_STATE = (
    type, types.ModuleType, types.CodeType, types.BuiltinFunctionType, str, bytes, int, float, complex, bool,
    type(None), torch.dtype, torch.device, torch.Size,
)  # fmt: skip


class Kept:
    """What a model keeps, as it was when this was made: found through its modules' attributes.

    Followed are modules, dictionaries, lists, sets, deques, tuples, objects of the user's classes, bound methods and
    the closures of functions. Kept are which values they hold, the values of buffers and of tensors in attributes,
    and the states of generators.
    """

    def __init__(self, model: nn.Module, *, is_deep: bool = True) -> None:
        """With `is_deep=False` only parameters and buffers are kept."""
        self._undo: list[Callable[[], None]] = []
        self._seen: dict[int, Any] = {}
        self._bytes = 0
        buffers = list(model.buffers())
        for buffer in buffers:
            self._keep_values(buffer)
        self._undo += [_gradient_keeper(tensor) for tensor in [*buffers, *model.parameters()]]
        self._seen |= {id(tensor): tensor for tensor in [*buffers, *model.parameters()]}
        if is_deep:
            self._walk([model, *_global_hooks()])
        else:
            for module in model.modules():
                tables = (vars(module).get(name) for name in ("_parameters", "_buffers"))
                self._undo += [_table_keeper(table) for table in tables if isinstance(table, dict)]

    def put_back(self) -> None:
        """Put everything back, the last found first."""
        with torch.no_grad():
            for undo in reversed(self._undo):
                undo()

    def _walk(self, roots: Iterable[Any]) -> None:
        waiting = deque(roots)
        while waiting and len(self._seen) < MOST_OBJECTS:
            value = waiting.popleft()
            if isinstance(value, _WITHOUT_STATE) or id(value) in self._seen:
                continue
            self._seen[id(value)] = value  # held, so that no other object gets its id
            waiting.extend(self._visit(value))

    def _visit(self, value: Any) -> Iterable[Any]:
        """Note how to put one object back, and return what it holds."""
        visits: tuple[tuple[Any, Callable[[Any], Iterable[Any]]], ...] = (
            (torch.Tensor, self._keep_tensor),
            (np.ndarray, self._keep_array),
            (torch.Generator, self._keep_generator),
            ((dict, list, set, deque), self._visit_container),
            (types.FunctionType, self._visit_function),
        )
        for kinds, visit in visits:
            if isinstance(value, kinds):
                return visit(value)
        if isinstance(value, tuple | frozenset):
            return value
        if isinstance(value, types.MethodType):
            return (value.__self__, value.__func__)
        return self._visit_object(value)

    def _visit_container(self, value: dict[Any, Any] | list[Any] | set[Any] | deque[Any]) -> Iterable[Any]:
        if isinstance(value, dict):
            self._undo.append(_table_keeper(value))
            return [*list(value.values()), *_attributes(value)]
        if isinstance(value, set):
            self._undo.append(_set_keeper(value))
        else:
            self._undo.append(_sequence_keeper(value))
        return list(value)

    def _visit_function(self, value: types.FunctionType) -> Iterable[Any]:
        held: list[Any] = [vars(value), *(value.__defaults__ or ())]
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # of a cell that is still empty
                content = cell.cell_contents
                self._undo.append(_cell_keeper(cell, content))
                held.append(content)
        return held

    def _visit_object(self, value: Any) -> Iterable[Any]:
        kind = type(value)
        if isinstance(value, nn.Module):
            for base in kind.__mro__:
                if not _is_left_alone(base) and id(base) not in self._seen:
                    self._seen[id(base)] = base
                    self._undo.append(_class_keeper(base))
        elif _is_left_alone(kind):
            return ()
        return _attributes(value)

    def _keep_generator(self, generator: torch.Generator) -> Iterable[Any]:
        state = generator.get_state()
        self._undo.append(lambda: _set_generator(generator, state))
        return ()

    def _keep_array(self, array: np.ndarray[Any, Any]) -> Iterable[Any]:
        if array.dtype.hasobject or not self._has_room(array.nbytes):
            return ()
        before = array.copy()

        def put_back() -> None:
            if array.flags.writeable and not np.array_equal(array.view(np.uint8), before.view(np.uint8)):
                array[...] = before

        if array.ndim and array.flags.c_contiguous:
            self._undo.append(put_back)
        return ()

    def _keep_tensor(self, tensor: torch.Tensor) -> Iterable[Any]:
        with suppress(RuntimeError, NotImplementedError):  # of a tensor without memory of its own
            is_kept = not isinstance(tensor, nn.Parameter) and self._has_room(tensor.untyped_storage().nbytes())
            if is_kept:
                self._keep_values(tensor)
        return ()

    def _has_room(self, num_bytes: int) -> bool:
        """Tell whether so many bytes may be copied, and count them."""
        if self._bytes + num_bytes > MOST_BYTES:
            return False
        self._bytes += num_bytes
        return True

    def _keep_values(self, tensor: torch.Tensor) -> None:
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta":
            return  # not compared, and not written back
        value = tensor.detach().clone()

        def put_back() -> None:
            if not _same(tensor, value):
                tensor.detach().copy_(value)

        self._undo.append(put_back)


def _attributes(value: Any) -> list[Any]:
    """Return the objects that hold an object's attributes: its dictionary, and what is in its slots."""
    found: list[Any] = []
    with suppress(TypeError):
        found.append(vars(value))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            with suppress(AttributeError, TypeError):
                found.append(getattr(value, name))
    return found


def _is_left_alone(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in _NOT_ENTERED


def _class_keeper(kind: type) -> Callable[[], None]:
    before = dict(vars(kind))

    def put_back() -> None:
        for name in [name for name in vars(kind) if name not in before]:
            delattr(kind, name)
        for name, value in before.items():
            if vars(kind).get(name) is not value:
                setattr(kind, name, value)

    return put_back


def _table_keeper(table: dict[Any, Any]) -> Callable[[], None]:
    before = list(table.items())
    # Its own methods may be overridden, and refuse to be called.
    kind: Any = OrderedDict if isinstance(table, OrderedDict) else dict

    def put_back() -> None:
        now = list(table.items())
        if len(now) == len(before) and all(a is b and x is y for (a, x), (b, y) in zip(now, before, strict=True)):
            return
        kind.clear(table)
        for name, value in before:
            kind.__setitem__(table, name, value)

    return put_back


def _sequence_keeper(sequence: list[Any] | deque[Any]) -> Callable[[], None]:
    before = list(sequence)

    def put_back() -> None:
        if len(sequence) != len(before) or any(a is not b for a, b in zip(sequence, before, strict=True)):
            sequence.clear()
            sequence.extend(before)

    return put_back


def _set_keeper(values: set[Any]) -> Callable[[], None]:
    before = set(values)

    def put_back() -> None:
        if values != before:
            values.clear()
            values.update(before)

    return put_back


def _cell_keeper(cell: types.CellType, content: Any) -> Callable[[], None]:
    def put_back() -> None:
        cell.cell_contents = content

    return put_back


def _gradient_keeper(tensor: torch.Tensor) -> Callable[[], None]:
    before = tensor.requires_grad

    def put_back() -> None:
        if tensor.is_leaf and tensor.requires_grad is not before:
            tensor.requires_grad_(before)

    return put_back


def _set_generator(generator: torch.Generator, state: torch.Tensor) -> None:
    generator.set_state(state)


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Tell whether nothing was written: a copy would raise the buffer's version, which compiled models look at."""
    if left.shape != right.shape:
        return True  # resized in place; its memory holds other values now, and cannot be put back
    both = (torch.view_as_real(left), torch.view_as_real(right)) if left.is_complex() else (left, right)
    return bool(((both[0] == both[1]) | ((both[0] != both[0]) & (both[1] != both[1]))).all())


def _global_hooks() -> list[Any]:
    """Return the dictionaries of the hooks that hold for every module."""
    return [
        value for name, value in vars(global_hooks).items() if name.startswith("_global_") and name.endswith("hooks")
    ]


@contextmanager
def process_state_kept() -> Iterator[None]:
    """Put back afterwards what a process has once: random numbers, PyTorch's modes, the working folder."""
    undo = [*_random_states(), *_modes()]
    try:
        yield
    finally:
        for put_back in undo:
            put_back()


def _random_states() -> list[Callable[[], None]]:
    found: list[Callable[[], None]] = []
    state = torch.get_rng_state()
    found.append(lambda: torch.set_rng_state(state))
    python = random.getstate()
    found.append(lambda: random.setstate(python))
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states = torch.cuda.get_rng_state_all()
        found.append(lambda: torch.cuda.set_rng_state_all(states))
    numpy = np.random.get_state()
    found.append(lambda: np.random.set_state(numpy))
    return found


def _modes() -> list[Callable[[], None]]:
    grad, dtype, threads = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()

    def put_back() -> None:
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=only_warns)

    found: list[Callable[[], None]] = [put_back]
    with suppress(OSError):  # the working folder may be gone
        folder = Path.cwd()
        found.append(lambda: os.chdir(folder))
    return found
