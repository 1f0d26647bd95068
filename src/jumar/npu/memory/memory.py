"""The memory of the emulated devices: which storages are alive, and what the simulated allocator does with them.

PyTorch keeps the Python object of a storage as long as the storage, so a weak reference to it tells when
the memory is freed. Each life is two entries in its device's log, made as cheaply as Python allows: the
reference is appended when the storage begins and, by `list.append` as its callback, when it ends. The log
is replayed in the simulated allocator when someone asks about the memory, and as soon as what was allocated
since could be more than there is. Until then no allocation can fail, so nothing is lost by waiting, and
the outcome is that of an allocator called each time.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace as replace_fields
from typing import NoReturn

import torch

from jumar.npu.core.state import STATE
from jumar.npu.memory import host_memory
from jumar.npu.memory.allocator import (
    DEFAULT_POOL,
    PADDING,
    CachingAllocator,
    Chunk,
    DoesNotFitError,
    PoolId,
    from_environment,
    replay,
)
from jumar.npu.memory.allocator.history import Frames, History, stack
from jumar.npu.memory.allocator.stats import RESERVED, SIZE

MIB, GIB, EXABYTE = 2**20, 2**30, 2**60
DEFAULT_CAPACITY_BYTES = 64 * GIB
"""For a SoC whose memory is not public; the Atlas training cards have 32 or 64 GiB."""
_LARGE = 16 * MIB
"""From this size on it pays to look before the host allocates."""
_LARGE_NUMEL = _LARGE // 16
"""The same in elements of the largest type."""
_HOST_LARGE = 64 * MIB
"""From this size on the memory of the machine is looked at."""
_SMALL_REQUEST, _SMALL_STEP, _LARGE_STEP = MIB - PADDING, 2 * MIB, 20 * MIB
"""A storage of up to the first makes the allocator reserve the second at most, a larger one itself and the third."""
_MOST_AHEAD = 4096 * _SMALL_STEP
"""Headroom given at once: it bounds the log."""


class Life(weakref.ref):  # type: ignore[type-arg]
    """The life of one storage, to which it is a weak reference."""

    __slots__ = ("chunk", "size_bytes")
    size_bytes: int
    chunk: Chunk | None
    """Where the allocator put it, once the log was replayed."""
    place: tuple[PoolId, int] | None = None
    """Memory pool and stream, where they are not the default ones."""
    frames: Frames | tuple[()] = ()
    """Where the program was that made the storage, while the memory's history is recorded."""
    end_frames: Frames | tuple[()] = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__


class PlacedLife(Life):
    """The life of a storage on a device above 0, in a private pool, on a side stream, or whose history is recorded."""

    __slots__ = ("device", "end_frames", "frames", "place", "storage")
    device: Device
    frames: Frames | tuple[()]
    end_frames: Frames | tuple[()]
    place: tuple[PoolId, int] | None
    storage: int


class Device:
    """The memory of one logical device. `headroom`: bytes that may still be allocated before the log is replayed."""

    __slots__ = ("allocator", "configured", "headroom", "index", "lock", "log", "placed", "replaying")

    def __init__(self, index: int) -> None:
        self.index = index
        self.log: list[Life] = []
        self.placed: set[PlacedLife] = set()
        """Kept here, because a reference that is itself dropped tells nothing."""
        self.lock = threading.RLock()
        self.replaying = False
        self.allocator = CachingAllocator(DEFAULT_CAPACITY_BYTES, from_environment({}))
        self.configured = self.allocator.config
        """The options that the environment gave last."""
        self.headroom = 0

    def settle(self, own: Life | None = None) -> None:
        """Bring the allocator up to date. Raises torch.OutOfMemoryError when the storage `own` does not fit."""
        refused = None
        with self.lock:
            if self.log and not self.allocator.stats.num_device_alloc and self.allocator.config is self.configured:
                self.configure()  # the vendor reads the variable at the first allocation
            if self.replaying:  # an object that dies meanwhile may run operators; they wait in the log
                return
            self.replaying = True
            try:
                events = self.log[:]
                del self.log[: len(events)]
                refused = self._replay(events, own)
                self.grant()
            finally:
                self.replaying = False
        if refused is not None:
            raise_out_of_memory(self, refused)

    def configure(self) -> None:
        """Take the capacity, padding and options of the settings and the environment."""
        allocator = self.allocator
        allocator.capacity_bytes = capacity_bytes()
        allocator.padding = 0 if STATE.profile.family == "950" else PADDING
        config = from_environment(os.environ)
        remains = any(chunk.expandable for chunk in allocator.heads.values())
        self.configured = replace_fields(config, is_plain=config.is_plain and not remains)
        allocator.configure(self.configured)
        fraction = STATE.options.get(f"memory_fraction:{self.index}", 1.0)
        allocator.allowed_bytes = int(fraction * allocator.capacity_bytes) if fraction < 1 else None
        self.grant()

    def grant(self) -> None:
        """Set the headroom by what is reserved now."""
        self.headroom = min(_MOST_AHEAD, self.allocator.limit_bytes - self.allocator.reserved)

    def _replay(self, events: list[Life], own: Life | None) -> int | None:
        """Return the size of the segment that `own` would have needed, when it does not fit."""
        allocator = self.allocator
        refused = None
        position, end = 0, len(events)
        while position < end:
            if allocator.config.is_plain and allocator.history is None:
                reached = replay(allocator, True, events, position)
                if reached == position:
                    reached = replay(allocator, False, events, position)
                if reached > position:
                    position = reached
                    continue
            life = events[position]
            if allocator.history is not None:
                allocator.history.frames = list(life.frames if life.chunk is None else life.end_frames)
            if life.chunk is not None:
                if life.chunk is not NOTHING:
                    allocator.free(life.chunk)
            else:
                try:
                    life.chunk = self._malloc(life, life is own)
                except DoesNotFitError as error:
                    life.chunk, refused = NOTHING, error.size_bytes
            position += 1
        return refused

    def _malloc(self, life: Life, may_fail: bool) -> Chunk:
        if not life.size_bytes:
            return NOTHING
        owner, stream = life.place or (DEFAULT_POOL, 0)
        try:
            chunk = self.allocator.malloc(life.size_bytes, owner, stream)
        except DoesNotFitError:
            if may_fail:
                raise
            # NOTE: another thread's storage, allocated in the moment the limit was reached. Its operator has
            # returned, so it is let in beyond the limit; the next allocation is the one that fails.
            chunk = self._malloc_beyond(life.size_bytes, owner, stream)
        chunk.used = life
        return chunk

    def _malloc_beyond(self, size_bytes: int, owner: PoolId, stream: int) -> Chunk:
        allocator = self.allocator
        kept = allocator.capacity_bytes, allocator.allowed_bytes
        allocator.stats.num_ooms -= 1
        allocator.capacity_bytes, allocator.allowed_bytes = allocator.reserved + size_bytes + GIB, None
        try:
            return allocator.malloc(size_bytes, owner, stream)
        finally:
            allocator.capacity_bytes, allocator.allowed_bytes = kept

    def attempt(self, size_bytes: int) -> int | None:
        """Try an allocation and undo it. Return the size of the segment it would have needed, when it does not fit."""
        try:
            chunk = self.allocator.malloc(size_bytes)
        except DoesNotFitError as error:
            return error.size_bytes
        self.allocator.free(chunk)
        self.allocator.stats.forget(chunk.pool.is_small, chunk.size, size_bytes)
        return None

    def life_of(self, storage: torch.UntypedStorage) -> Life | None:
        """Return the life of an npu storage of this device, up to date; None for one whose memory is another's."""
        self.settle()
        return next((item for item in weakref.getweakrefs(storage) if isinstance(item, Life)), None)

    def give(self, life: Life, size_bytes: int) -> None:
        """Let a life have memory of another size. Raises DoesNotFitError; then it has the old one still."""
        before, life.size_bytes = life.size_bytes, size_bytes
        try:
            life.chunk = self._malloc(life, True)
        except DoesNotFitError:
            life.size_bytes = before
            raise


NOTHING = Chunk(0, 0, CachingAllocator(0, from_environment({})).default[0])
"""Stands for the chunk of a storage that takes no memory of the device: it is empty, or was refused."""

_FIRST = Device(0)
DEVICES: list[Device] = [_FIRST]
INDEX_OF_STORAGE: dict[int, int] = {}
"""Logical device of each live storage that is not on device 0, by the address of its StorageImpl."""
_begin = _FIRST.log.append
_end = _FIRST.log.append


class _Place(threading.local):
    current: tuple[tuple[int, PoolId, int], ...] = ()


_PLACE = _Place()
"""Device, memory pool and stream that this thread allocates from where they are not the default, innermost last."""
_num_placed: list[int] = []
"""Not empty while some thread allocates elsewhere, or the history is recorded."""


class _Recording:
    """What is kept of the memory's history. `make` is None while it is not recorded."""

    make: Callable[[], History] | None = None
    of_begin = of_end = False


_RECORDING = _Recording()


def record(make: Callable[[], History] | None, *, of_begin: bool = False, of_end: bool = False) -> None:
    """Begin a history of every device, made by `make`, or end it with None.

    `of_begin` and `of_end` say whether the stacks are kept with which storages begin and end.
    """
    if _RECORDING.make is not None:
        _num_placed.remove(-1)
    _RECORDING.make, _RECORDING.of_begin, _RECORDING.of_end = make, of_begin, of_end
    if make is not None:
        _num_placed.append(-1)
    for held in DEVICES:
        held.allocator.history = None if make is None else make()


def device(index: int) -> Device:
    """Return the memory of this logical device, made when first asked for."""
    while len(DEVICES) <= index:
        made = Device(len(DEVICES))
        made.configure()
        made.allocator.history = None if _RECORDING.make is None else _RECORDING.make()
        DEVICES.append(made)
    return DEVICES[index]


def capacity_bytes() -> int:
    """Return the memory of one device of the emulated SoC."""
    return STATE.settings.memory_bytes or STATE.profile.memory_bytes or DEFAULT_CAPACITY_BYTES


def track(owner: torch.Tensor, index: int = 0) -> None:
    """Count the storage of the npu tensor `owner` on device `index` until it is freed.

    Raises torch.OutOfMemoryError when the device has no room for it; then nothing is counted.
    """
    if index or _num_placed:
        _track_elsewhere(owner.untyped_storage(), index)
        return
    storage = owner.untyped_storage()
    life = Life(storage, _end)
    life.size_bytes = size = storage.nbytes()
    life.chunk = None
    _begin(life)
    _FIRST.headroom -= _SMALL_STEP if size <= _SMALL_REQUEST else size + _LARGE_STEP
    if _FIRST.headroom < 0 or size > _HOST_LARGE:
        _look(_FIRST, life, size)


def _track_elsewhere(storage: torch.UntypedStorage, index: int) -> None:
    held = device(index)
    life = PlacedLife(storage, _ended)
    life.size_bytes = size = storage.nbytes()
    life.chunk, life.device, life.storage = None, held, storage._cdata
    life.place = next((item[1:] for item in reversed(_PLACE.current) if item[0] == index), None)
    life.frames, life.end_frames = stack() if _RECORDING.of_begin else (), ()
    held.log.append(life)
    held.placed.add(life)
    if index:
        INDEX_OF_STORAGE[life.storage] = index
    held.headroom -= size + _LARGE_STEP
    if held.headroom < 0 or size > _HOST_LARGE:
        _look(held, life, size)


def _ended(life: PlacedLife) -> None:
    if life.device.index:
        INDEX_OF_STORAGE.pop(life.storage, None)
    life.device.placed.discard(life)
    if _RECORDING.of_end:
        life.end_frames = stack()
    life.device.log.append(life)


def _look(held: Device, life: Life, size: int) -> None:
    """Make sure a new storage fits into the device, and into this machine."""
    if held.headroom < 0:
        held.settle(life)
    if size > _HOST_LARGE:
        host_memory.check_left(size)


def require(size_bytes: int, index: int = 0) -> None:
    """Raise torch.OutOfMemoryError when a storage of this size would not fit, before any is made.

    Raises HostMemoryError when it is this machine that has no room for it.
    """
    if size_bytes < _LARGE:
        return
    held = device(index)
    if held.headroom < size_bytes + _LARGE_STEP:
        held.settle()
        if not held.allocator.fits(size_bytes):
            refused = held.attempt(size_bytes)
            if refused is not None:
                raise_out_of_memory(held, refused)
    if size_bytes > _HOST_LARGE:
        host_memory.require(size_bytes)


def require_shape(
    shape: Sequence[int] | None, dtype: torch.dtype | None = None, like: torch.Tensor | None = None, index: int = 0
) -> None:
    """`require` for a new tensor of this shape; its dtype is `dtype`, else that of `like`, else the default one."""
    if not shape:
        return
    num = math.prod(shape)
    if num >= _LARGE_NUMEL:
        known = dtype or (torch.get_default_dtype() if like is None else like.dtype)
        require(num * known.itemsize, index)


def charge(tensor: torch.Tensor, size_bytes: int) -> None:
    """Count the storage of an npu tensor as this many bytes from now on: the padding of a private format.

    Raises torch.OutOfMemoryError when it does not fit; then the old size stays counted. A tensor whose memory is
    not counted, because it has none or it is another's, is left alone.
    """
    held = device(index_of(tensor))
    with held.lock:
        life = held.life_of(tensor.untyped_storage())
        if life is None or life.chunk is None or life.chunk is NOTHING or life.size_bytes == size_bytes:
            return
        chunk, before, refused = life.chunk, life.size_bytes, None
        held.allocator.free(chunk)
        held.allocator.stats.forget(chunk.pool.is_small, chunk.size, before)
        try:
            held.give(life, size_bytes)
        except DoesNotFitError as error:
            refused = error.size_bytes
            held.give(life, before)
        held.grant()
    if refused is not None:
        raise_out_of_memory(held, refused)


def replace(storage: torch.UntypedStorage, size_bytes: int) -> None:
    """Count new memory of this size for an npu storage, and then its old memory as freed.

    Raises torch.OutOfMemoryError when there is no room for both, as on the device; then nothing changes.
    """
    index = INDEX_OF_STORAGE.get(storage._cdata, 0)
    held = device(index)
    refused = None
    with held.lock:
        life = held.life_of(storage)
        if life is None or life.chunk is None:
            made = PlacedLife(storage, _ended)
            made.device, made.storage, made.place, made.chunk, made.size_bytes = held, storage._cdata, None, None, 0
            made.frames = made.end_frames = ()
            held.placed.add(made)
            life = made
        chunk = life.chunk
        try:
            held.give(life, size_bytes)
        except DoesNotFitError as error:
            refused = error.size_bytes
        else:
            if chunk is not None and chunk is not NOTHING:
                held.allocator.free(chunk)
        held.grant()
    if refused is not None:
        raise_out_of_memory(held, refused)


def index_of(tensor: torch.Tensor) -> int:
    """Return the logical device of an npu tensor."""
    if not STATE.multiple:
        return 0
    return INDEX_OF_STORAGE.get(tensor.untyped_storage()._cdata, 0)


def settled(index: int) -> CachingAllocator:
    """Return the allocator of a device, up to date."""
    held = device(index)
    held.settle()
    return held.allocator


def empty_cache(pool: PoolId | None = None) -> None:
    """Give the cached memory of all devices back, or that of one memory pool."""
    for held in tuple(DEVICES):
        held.settle()
        with held.lock:
            held.allocator.empty_cache(pool)
            held.grant()


def refresh() -> None:
    """Begin again with other settings: another device has no cached memory and no history."""
    empty_cache()
    for held in DEVICES:
        held.configure()
        held.allocator.stats.reset_peak()
        held.allocator.stats.reset_sums()


def set_fraction(fraction: float, index: int) -> None:
    """Limit what this process may reserve to a share of the device."""
    STATE.options[f"memory_fraction:{index}"] = fraction
    device(index).configure()


def enter_place(index: int, pool: PoolId, stream: int) -> None:
    """Let this thread allocate from another memory pool or stream of a device, until `leave_place`."""
    _PLACE.current = (*_PLACE.current, (index, pool, stream))
    _num_placed.append(index)


def leave_place() -> None:
    """Undo the last `enter_place` of this thread."""
    _PLACE.current = _PLACE.current[:-1]
    _num_placed.pop()


def raise_out_of_memory(held: Device, size_bytes: int) -> NoReturn:
    """Raise the error of an NPU that is full, in torch_npu's words; `size_bytes` is the segment that was tried."""
    if size_bytes >= EXABYTE:
        raise torch.OutOfMemoryError("NPU out of memory. Tried to allocate more than 1EB memory.")
    allocator = held.allocator
    used = format_size(allocator.stats.current(SIZE))
    free = max(0, allocator.capacity_bytes - allocator.reserved)
    allowed = "" if allocator.allowed_bytes is None else f"{format_size(allocator.allowed_bytes)} allowed; "
    raise torch.OutOfMemoryError(
        f"NPU out of memory. Tried to allocate {format_size(size_bytes)} (NPU {held.index}; "
        f"{format_size(allocator.capacity_bytes)} total capacity; {used} already allocated; {used} current active; "
        f"{format_size(free)} free; {allowed}{format_size(allocator.stats.current(RESERVED))} reserved in total by "
        "PyTorch).If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation."
    )


def format_size(size_bytes: int) -> str:
    """Return a size as the allocator's messages give it."""
    if size_bytes <= 1024:
        return f"{size_bytes} bytes"
    for unit, name in ((2**10, "KiB"), (2**20, "MiB")):
        if size_bytes <= unit * 1024:
            return f"{size_bytes / unit:.2f} {name}"
    return f"{size_bytes / GIB:.2f} GiB"


def _after_fork() -> None:
    """Give a child process locks that nobody holds."""
    for held in DEVICES:
        held.lock, held.replaying = threading.RLock(), False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
