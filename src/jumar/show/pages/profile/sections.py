"""`profile_sections`: the pictures of one rank's timeline as sections of a page."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.base.errors import DeviceError
from jumar.show.blocks.page import Block, Section, Text
from jumar.show.pages.profile.flame import flame_picture
from jumar.show.pages.profile.memory import counter_blocks, memory_blocks
from jumar.show.pages.profile.roofline import roofline_picture
from jumar.show.pages.profile.shapes import shapes_table
from jumar.show.pages.profile.trace import trace_picture
from jumar.soc.profiles import get_soc
from jumar.timeline.model.events import StepWindow, Timeline


def profile_sections(timeline: Timeline, soc: str | None = None) -> list[Section]:
    """Return the timeline, the flame graph, memory, counters and the roofline; what has no data is left out.

    `soc` names the chip of the roofline; without it, the timeline's own where Jumar knows it. Raises DeviceError for a
    chip that is not known.
    """
    steady = _steady(timeline)
    trace, flame, shapes = (
        trace_picture(timeline), flame_picture(timeline, steady), shapes_table(timeline, steady),
    )  # fmt: skip
    titled: list[tuple[str, Sequence[Block]]] = [
        ("Timeline", [trace] if trace else []),
        ("Call paths", [flame] if flame else []),
        ("Operators by shape", [shapes] if shapes else []),
        ("Memory", memory_blocks(timeline)),
        ("Roofline", _roofline(timeline, soc)),
        ("Loader and host", counter_blocks(timeline)),
    ]
    return [Section(title=title, blocks=blocks) for title, blocks in titled if blocks]


def _steady(timeline: Timeline) -> Sequence[StepWindow]:
    """Return the steps after the first; the first where there is no other; the whole where steps are not known."""
    events = timeline.events
    if not timeline.steps and len(events):
        return [StepWindow(0, int(events.start_ns.min()), int(events.end_ns.max()) + 1)]
    return timeline.steps[1:] or timeline.steps


def _roofline(timeline: Timeline, soc: str | None) -> list[Block]:
    try:
        chip = get_soc(soc or timeline.device_name)
    except DeviceError:
        if soc is not None:
            raise
        return []
    picture = roofline_picture(timeline, chip)
    if picture is None and soc is not None:
        return [Text(text=f"No roofline for {soc}: no product with shapes and a time, or no public peak of the chip.")]
    return [picture] if picture else []
