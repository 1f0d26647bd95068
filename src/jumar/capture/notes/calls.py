"""`Call`, `Site` and `Seen`: the observer's notes during the run, which become rows afterwards.

Notes are kept light: the run waits while they are taken, and does not wait while a step's notes
become rows. What repeats (where a call is made, how a tensor lies in memory) is one object shared by
all calls and steps, so that the columns of a step that is like the one before need not be built again.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from jumar.capture.notes.memory import address_runs
from jumar.recording import Kind, Phase
from jumar.recording.schema import row_key

if TYPE_CHECKING:
    import numpy as np

    from jumar.recording.tensors.views import ArrayView

Statistics = tuple[float | None, float | None, float | None, float | None, int, int]
"""Minimum, maximum, mean, L2 norm (None without a finite element), number of NaN, number of Inf."""
_SIX = struct.Struct("6d")
UNKNOWN = _SIX.pack(*[math.nan] * 6)
"""Packed statistics of a tensor whose elements were not looked at."""


def packed(statistics: Statistics) -> bytes:
    """Return the six as float64, NaN for None: one object a tensor, which become columns at once."""
    return _SIX.pack(*(math.nan if number is None else number for number in statistics))


class Layout:
    """How a tensor lies in memory: everything except its address and its elements. Equal layouts are one object."""

    __slots__ = (
        "addresses",
        "contiguous",
        "device",
        "dtype",
        "elements",
        "format",
        "key",
        "shape",
        "storage_offset",
        "stride",
    )

    def __init__(self, tensor: torch.Tensor) -> None:
        self.key = self.elements = 0
        """Its number and that of its `addresses` in a table, above the bits of a version; the latter is negative."""
        self.shape = _nested_shape(tensor) if tensor.is_nested else _shape(tensor)
        self.dtype = tensor.dtype
        self.device = tensor.device
        self.format = "ND"
        if tensor.layout is torch.strided and not tensor.is_nested:
            self.stride: tuple[int, ...] = tensor.stride()
            self.storage_offset = int(tensor.storage_offset())
            self.contiguous = tensor.is_contiguous()
            self.addresses: Any = (
                self.storage_offset,
                self.dtype,
                tensor.is_conj(),
                tensor.is_neg(),
                address_runs(tuple(self.shape), self.stride),
            )
            """The same for views of one memory that hold the same elements, in whatever order."""
        else:
            self.stride, self.storage_offset, self.contiguous, self.addresses = (), 0, False, None
            self.format = "NESTED" if tensor.is_nested else str(tensor.layout).removeprefix("torch.").upper()


def _shape(tensor: torch.Tensor) -> torch.Size:
    """Return the shape. A parameter that a lazy module has not initialised has no shape and counts as empty."""
    try:
        return tensor.shape
    except RuntimeError:
        return torch.Size([0])


def _nested_shape(tensor: torch.Tensor) -> torch.Size:
    """Return the shape of a nested tensor with -1 for a dimension whose length is not the same for all."""
    if tensor.layout is torch.strided:
        return torch.Size([tensor.size(0)] + [-1] * (tensor.dim() - 1))
    return torch.Size([size if type(size) is int else -1 for size in tensor.shape])


class Seen:
    """One tensor as it was at one moment; shared by the rows that saw it unchanged."""

    __slots__ = ("array", "hash", "index", "layout", "num_writes", "sketch", "statistics", "storage", "twin", "version")

    def __init__(self, layout: Layout, storage: int, num_writes: int = 0, version: int = -1) -> None:
        self.layout = layout
        self.storage = storage
        """Number of its memory in the step; 0 when that is not followed."""
        self.num_writes, self.version = num_writes, version
        """The state of its elements; -1 when that is not followed."""
        self.statistics: bytes | None = None
        """`Statistics`, packed."""
        self.sketch: bytes | None = None
        self.hash = ""
        self.array: np.ndarray | ArrayView | None = None
        self.twin: Seen | None = None
        """The first note of the same elements in the same state, seen as another view: it has the same statistics."""
        self.index = -1
        """Number among the tensors of a table while that is made."""

    @property
    def memory(self) -> tuple[int, int, int, Any] | None:
        """Identity of its elements and their state: equal for views of the same elements, in whatever order."""
        if self.version < 0:
            return None
        return self.storage, self.num_writes, self.version, self.layout.addresses

    @property
    def shape(self) -> torch.Size:
        """Its shape."""
        return self.layout.shape

    @property
    def dtype(self) -> torch.dtype:
        """Its dtype."""
        return self.layout.dtype

    @property
    def device(self) -> torch.device:
        """Its device."""
        return self.layout.device

    @property
    def stride(self) -> tuple[int, ...]:
        """Its strides, in elements; empty when it has none (sparse)."""
        return self.layout.stride

    @property
    def contiguous(self) -> bool:
        """Whether it is contiguous."""
        return self.layout.contiguous


Named = list[Any]
"""Names and `Seen`s in turn: one flat list, because a pair a tensor would keep the garbage collector busy."""


class Tally:
    """Calls of one kind, phase, path and name in the step under way, and their sites by class of module."""

    __slots__ = ("num_calls", "sites")

    def __init__(self) -> None:
        self.num_calls = 0
        self.sites: dict[str, Site] = {}


class Site:
    """Where calls are made: what all calls of one operator or module at one place have in common."""

    __slots__ = ("draws", "is_view", "kind", "module_path", "module_type", "name", "phase", "tally")

    def __init__(self, kind: Kind, phase: Phase, module_path: str, module_type: str, name: str, tally: Tally) -> None:
        self.kind: Kind = kind
        self.phase: Phase = phase
        self.module_path = module_path
        self.module_type = module_type
        self.name = name
        self.tally = tally
        self.draws: bool | None = None
        """Whether the operator may draw random numbers; None for other kinds, as for `is_view`."""
        self.is_view: bool | None = None


class Call:
    """One call while it is under way, then one row."""

    __slots__ = (
        "arguments",
        "autocast",
        "duration_us",
        "inputs",
        "occurrence",
        "outputs",
        "rng",
        "site",
        "source",
        "start_us",
        "wanted",
    )

    def __init__(self, site: Site, occurrence: int, autocast: str = "", source: str = "") -> None:
        self.site = site
        self.occurrence = occurrence
        self.autocast = autocast
        self.source = source
        self.arguments: Any = None
        """Names and values, in turn, of the arguments that are not tensors, or None; text is taken as it is."""
        self.rng = ""
        self.wanted = False
        """Whether the whole tensors of this row were asked for by its key."""
        self.start_us = 0.0
        self.duration_us = 0.0
        self.inputs: Named = []
        self.outputs: Named = []

    @property
    def kind(self) -> Kind:
        """See `CallRow`, as for the properties below."""
        return self.site.kind

    @property
    def phase(self) -> Phase:
        """The phase."""
        return self.site.phase

    @property
    def module_path(self) -> str:
        """The module's path."""
        return self.site.module_path

    @property
    def module_type(self) -> str:
        """The module's class."""
        return self.site.module_type

    @property
    def name(self) -> str:
        """The operator's or module's name."""
        return self.site.name

    @property
    def key(self) -> str:
        """The row's key."""
        site = self.site
        return row_key(site.kind, site.phase, site.module_path, site.name, self.occurrence)


def arguments_text(arguments: Sequence[Any] | str | None) -> str:
    """Return names and values as a JSON object, empty for none; what JSON has no form for becomes text (`float16`)."""
    if not arguments:
        return ""
    if isinstance(arguments, str):
        return arguments
    names = iter(arguments)
    return json.dumps({name: plain(value) for name, value in zip(names, names, strict=True)}, default=str)


def plain(value: Any) -> Any:
    """Replace what JSON would write differently on another run or device."""
    if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return str(value).removeprefix("torch.")
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, complex):
        return str(value)
    return type(value).__name__  # a generator, a process group: its address would differ every run
