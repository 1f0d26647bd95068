"""A timeline -> `Roofline`: what its matrix products reach on the chosen chip, from their shapes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from jumar.operators.flops import product
from jumar.show.blocks.profiles import Dot, Roofline
from jumar.show.pages.profile.launched import device_ns
from jumar.soc.profiles import SocProfile
from jumar.timeline.model.events import Detail, Kind, Timeline

MAX_DOTS = 40
BYTES = {"float": 4, "float32": 4, "double": 8, "float64": 8, "half": 2, "float16": 2, "bfloat16": 2, "dt_float": 4,
         "dt_float16": 2, "dt_bf16": 2, "char": 1, "int8": 1, "dt_int8": 1}  # fmt: skip
"""Bytes of an element by the formats' words for dtypes, in lower case."""


def roofline_picture(timeline: Timeline, soc: SocProfile) -> Roofline | None:
    """Return the products of a timeline under the roofs of a chip.

    None where the chip's bandwidth or all its peaks are not public, or no product has shapes and a time.
    """
    roofs = [(name, peak) for name in ("float16", "bfloat16", "float32") if (peak := getattr(soc, f"peak_{name}"))]
    dots = _dots(timeline)
    if not roofs or not soc.memory_bandwidth or not dots:
        return None
    where = timeline.device_name or timeline.device or "the host"
    note = "FLOPs and bytes come from the shapes; each tensor is counted as read or written once."
    if where != soc.name:
        note += f" The times are of {where} and the roofs are of {soc.name}: a dot says what there is to gain."
    return Roofline(
        title=f"Matrix products under the roofs of {soc.name}", roofs=roofs, bandwidth=soc.memory_bandwidth,
        dots=dots, note=note,
    )  # fmt: skip


def _dots(timeline: Timeline) -> list[Dot]:
    """Return one dot for each operator and its shapes, those with the most FLOPs first."""
    events = timeline.events
    rows = np.flatnonzero(timeline.of(Kind.OPERATOR) & (events.detail >= 0))
    device = device_ns(timeline, rows)
    times = device if device.any() else events.duration_ns[rows].astype(float)
    groups: dict[tuple[int, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, detail, time in zip(events.name[rows].tolist(), events.detail[rows].tolist(), times, strict=True):
        group = groups[name, detail]
        group[0] += 1
        group[1] += float(time)
    found = []
    for (name, detail), (calls, nanoseconds) in groups.items():
        work = _work(timeline.names[name], timeline.details[detail]) if nanoseconds else None
        if work is not None:
            flops, moved, shapes = work
            dot = Dot(
                name=f"{timeline.names[name]} {shapes}",
                intensity=flops / moved,
                achieved=flops * calls / nanoseconds * 1e9,
            )
            found.append((flops * calls, dot))
    found.sort(key=lambda pair: -pair[0])
    return [dot for _, dot in found[:MAX_DOTS]]


def _work(name: str, detail: Detail) -> tuple[int, int, str] | None:
    """Return FLOPs, bytes and the product's sizes of one call; None for what is no product or has no shapes."""
    try:
        shapes, dtypes = json.loads(detail.shapes or "[]"), json.loads(detail.dtypes or "[]")
    except ValueError:
        return None
    tensors = [shape for shape in shapes if _is_shape(shape)]
    found = product(name, tensors) if tensors else None
    if found is None or not found.flops:
        return None
    words = [str(word).lower().removeprefix("c10::") for word in dtypes]
    size = next((BYTES[word] for word in words if word in BYTES), 4)
    elements = found.batch * (found.m * found.k + found.k * found.n + found.m * found.n)
    batch = f"{found.batch}×" if found.batch > 1 else ""
    return found.flops, elements * size, f"{batch}{found.m}×{found.k}×{found.n}"


def _is_shape(shape: object) -> bool:
    return isinstance(shape, Sequence) and bool(shape) and all(type(one) is int for one in shape)
