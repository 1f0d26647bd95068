"""The single-operator compile cache: which operators are compiled, and which keep being compiled again.

With `jit_compile` on, the device compiles an operator for its type, the shapes, dtypes and formats of its
tensors and its attributes. Numbers that an operator takes as an input (`alpha`, a multiplier) are host
constants that the compiled operator reads, so another value compiles nothing; lists of integers and
flags are attributes. A compiled operator serves the whole process, all its devices. With `jit_compile`
off, ready-made kernels serve every shape.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import torch

from jumar.base.errors import OutputError
from jumar.base.files import explained, write_bytes
from jumar.base.text import counted
from jumar.npu.core.events import OperatorEvent
from jumar.npu.core.overloads import arguments_of
from jumar.npu.core.state import STATE
from jumar.npu.formats.rules import Call

MODE, FOLDER = "ACL_OP_COMPILER_CACHE_MODE", "ACL_OP_COMPILER_CACHE_DIR"
_PREFIX, _SUFFIX = "operator-", ".key"

_cleared: set[Path] = set()
"""Folders that `force` has emptied in this process."""


def holds(key: str) -> bool:
    """Return whether an operator is in the folder, where one is in use; a missing one is added.

    Raises OutputError for a folder that is not there or cannot be written.
    """
    folder = _folder()
    if folder is None:
        return False
    text = f"{STATE.soc}\n{torch.__version__}\n{key}\n"
    file = folder / f"{_PREFIX}{hashlib.sha256(text.encode()).hexdigest()[:32]}{_SUFFIX}"
    if file.exists():
        return True
    with explained(file):
        write_bytes(file, text.encode(), durable=False)
    return False


def _folder() -> Path | None:
    mode, name = STATE.options.get(MODE), STATE.options.get(FOLDER)
    if mode not in ("enable", "force") or not name:
        return None
    folder = Path(name)
    if not folder.is_dir():
        raise OutputError(f"{FOLDER} must be a folder that exists; got {name}: create it first.")
    if mode == "force" and folder not in _cleared:
        _cleared.add(folder)
        for file in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
            file.unlink(missing_ok=True)
    return folder


Tensors = tuple[tuple[int, tuple[int, ...], str, str], ...]

_STORAGES = (torch.UntypedStorage, torch.storage.TypedStorage)


class Key(NamedTuple):
    """What decides whether a compiled operator can be used again."""

    operator: str
    tensors: Tensors
    """Position, shape, dtype and format of each tensor argument."""
    attributes: tuple[Any, ...]


def key_of(event: OperatorEvent, call: Call) -> Key:
    """Return the key of a call."""
    skipped = _inputs(event.operator)
    attributes = [_part(value) for position, value in enumerate(event.args) if position not in skipped]
    if event.kwargs:
        named = sorted(item for item in event.kwargs.items() if item[0] not in skipped)
        attributes.extend((name, _part(value)) for name, value in named)
    tensors = tuple([(item.argument, item.shape, item.dtype, str(item.format)) for item in call.inputs])
    return Key(event.operator, tensors, tuple(attributes))


@functools.cache
def _inputs(operator: str) -> frozenset[int | str]:
    """Return positions and names of the arguments that are no attributes: tensors, numbers, where and how."""
    kinds = ("Tensor", "number", "Device", "Generator", "Layout", "MemoryFormat")
    chosen = [
        (position, argument.name)
        for position, argument in enumerate(arguments_of(operator))
        if any(kind in str(argument.real_type) for kind in kinds)
    ]
    return frozenset(part for pair in chosen for part in pair)


def attributes_of(event: OperatorEvent) -> dict[str, Any]:
    """Return the arguments of a call that are no tensors, by name, as JSON can hold them."""
    given = {argument_name(event.operator, position): value for position, value in enumerate(event.args)}
    return {name: _json(value) for name, value in {**given, **event.kwargs}.items() if not _has_tensors(value)}


def _has_tensors(value: Any) -> bool:
    items = value if isinstance(value, (list, tuple)) else (value,)
    return any(isinstance(item, torch.Tensor) for item in items)


def _json(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_json(item) for item in value]
    is_plain = value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and isfinite(value))
    return value if is_plain else _text(value)


def _part(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple([_part(item) for item in value])
    if value is None or isinstance(value, (int, str)):
        return value
    return "tensor" if isinstance(value, torch.Tensor) else _text(value)


def _text(value: Any) -> str:
    # NOTE: a storage's `str` reads its bytes by operators on a tensor made of it, which come here again.
    return f"storage of {value.nbytes()} bytes" if isinstance(value, _STORAGES) else str(value)


class CompileCache:
    """The operators that have been compiled in this process."""

    def __init__(self) -> None:
        self._known: dict[Key, None] = {}
        self.num_hits = 0

    def needs_compile(self, key: Key) -> bool:
        """Return whether `key` has to be compiled, and remember it."""
        if key in self._known:
            self.num_hits += 1
            return False
        self._known[key] = None
        return not holds(repr(key))

    def clear(self) -> None:
        """Forget every compiled operator of this process."""
        self._known.clear()
        self.num_hits = 0


def sentences(keys: Iterable[Key], repeated: Iterable[Key]) -> tuple[str, ...]:
    """Return what varies between compiled keys, a sentence for each kind in `repeated`, the most compiled first.

    Keys of one operator whose tensors agree in number, dtype, format and rank are of one kind, in which the
    dimensions and attributes that take several values are named. A kind of one key varies in nothing, and has
    no sentence.
    """
    kinds: dict[Any, list[Key]] = {}
    for key in keys:
        kinds.setdefault(_kind(key), []).append(key)
    again = Counter(_kind(key) for key in repeated)
    return tuple(_sentence(kinds[kind], times) for kind, times in again.most_common() if len(kinds[kind]) > 1)


def _kind(key: Key) -> Any:
    tensors = tuple((position, len(shape), dtype, format) for position, shape, dtype, format in key.tensors)
    return key.operator, tensors, len(key.attributes)


def _sentence(keys: list[Key], times: int) -> str:
    varying = []
    for index, (position, shape, _, _) in enumerate(keys[0].tensors):
        for dim in range(len(shape)):
            sizes = sorted({key.tensors[index][1][dim] for key in keys})
            if len(sizes) > 1:
                varying.append(f"dimension {dim} of {argument_name(keys[0].operator, position)} takes {_list(sizes)}")
    for index in range(len(keys[0].attributes)):
        values = sorted({str(key.attributes[index]) for key in keys})
        if len(values) > 1:
            varying.append(f"attribute {index} takes {_list(values)}")
    return f"{keys[0].operator} was compiled {counted(times, 'time')} after the first steps: {', '.join(varying)}."


def _list(values: list[Any]) -> str:
    shown = ", ".join(str(value) for value in values[:4])
    return f"{len(values)} values ({shown}{' …' if len(values) > 4 else ''})"


def argument_name(operator: str, position: int) -> str:
    """Return the name of an operator's argument; its position where the operator has no schema."""
    known = arguments_of(operator)
    return str(known[position].name) if position < len(known) else f"argument {position}"
