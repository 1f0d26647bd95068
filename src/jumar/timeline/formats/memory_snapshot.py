"""Snapshots of a caching allocator: what `torch.cuda.memory._dump_snapshot`, or torch_npu's twin, writes.

The file is a pickle. It is read without running anything: see `plain_pickle`. Its content: PyTorch's documentation
"Understanding CUDA Memory Usage". Record before the part that matters: `torch.cuda.memory._record_memory_history()`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jumar.base.errors import InputError
from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.model.events import Timeline
from jumar.timeline.model.source import OnProgress, Source
from jumar.timeline.vendor import extras, places
from jumar.timeline.vendor.memory_history import History
from jumar.timeline.vendor.text import plain_pickle
from jumar.timeline.vendor.text.losses import Losses

NAME = "memory_snapshot"
LOOKS_FOR = "*.pickle of torch.cuda.memory._dump_snapshot"
_ENDINGS = frozenset({".pickle", ".pkl"})
_HEAD = 4096
_LARGEST = 1 << 30
_ADVICE = "write it with torch.cuda.memory._dump_snapshot"
_ONLY_MEMORY = "A memory snapshot has no such events: record a profile of the same steps beside it."
ABSENT = {
    **dict.fromkeys(("shapes", "stacks", "device", "host", "steps"), _ONLY_MEMORY),
    "history": "It is one moment only: call torch.cuda.memory._record_memory_history() before the steps.",
    "times": "Its entries have no times, as torch_npu writes them: the peak and its owners are known, not when it was.",
}
"""What a snapshot does not have, and how to get it."""


def find(place: Path) -> list[Source]:
    """Return the snapshots at or below `place`; reads the first 4 KiB of each pickle."""
    files = [place] if place.is_file() else [path for folder in places.folders(place) for path in places.files(folder)]
    return [
        Source(format=NAME, path=path, files=[path], size_bytes=path.stat().st_size)
        for path in files
        if path.suffix in _ENDINGS and _is_snapshot(path)
    ]


def _is_snapshot(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return b"segments" in head or b"device_traces" in head or b"total_size" in head


def read(source: Source, on_progress: OnProgress | None = None) -> Timeline:
    """Return the memory of every device over time. Raises InputError where the file is no plain snapshot."""
    content = _content(source.path)
    if on_progress is not None:
        on_progress(source.size_bytes, source.size_bytes)
    builder, losses = TimelineBuilder(), Losses()
    found = [history.replay(builder, losses, source.path.name) for history in _histories(content, source.path)]
    origin = builder.origin_ns
    has_history = any(allocations.num_allocations for allocations in found)
    has = {"history": has_history, "times": builder.has_counters or not has_history}
    settings = content.get("allocator_settings")
    return builder.build(
        source=str(source.path), format=NAME, device=found[0].device.partition(":")[0] if found else "",
        allocations=[extras.since(allocations, origin) for allocations in found], lost=losses.sentences(),
        absent={name: text for name, text in ABSENT.items() if not has.get(name, False)},
        facts={str(key): str(value) for key, value in settings.items()} if isinstance(settings, dict) else {},
    )  # fmt: skip


def _content(path: Path) -> dict[str, Any]:
    try:
        size = path.stat().st_size
        if size > _LARGEST:
            raise InputError(f"{path} has {size} bytes, and at most {_LARGEST} are read: record fewer entries.")
        content = plain_pickle.load(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}): name a file that you may read.") from None
    except plain_pickle.NotPlainError as error:
        raise InputError(f"{path} is no memory snapshot that can be read: {error}; {_ADVICE}.") from None
    if isinstance(content, list):
        content = {"segments": content}  # the first versions wrote the segments alone
    if not isinstance(content, dict) or not isinstance(content.get("segments"), list):
        raise InputError(f"{path} is no memory snapshot: it has no `segments`; {_ADVICE}.")
    return content


def _histories(content: dict[str, Any], path: Path) -> list[History]:
    segments = [segment for segment in content["segments"] if isinstance(segment, dict)]
    traces = content.get("device_traces")
    traces = traces if isinstance(traces, list) else []
    kind = "npu" if "npu" in f"{path.name} {content.get('allocator_settings', '')}".lower() else "cuda"
    devices = {device for segment in segments if isinstance(device := segment.get("device", 0), int)}
    devices |= {device for device, trace in enumerate(traces) if trace}
    return [
        History(
            f"{kind}:{device}", [segment for segment in segments if segment.get("device", 0) == device],
            traces[device] if 0 <= device < len(traces) and isinstance(traces[device], list) else [],
        )
        for device in sorted(devices)
    ]  # fmt: skip
