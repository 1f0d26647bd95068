"""What the blocks of a profile's page lay out, and the scripts that they need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jumar.show.blocks.profiles import Flame, Roofline, StackedBars, Trace
from jumar.show.html.profiles.flames import flame_view
from jumar.show.html.profiles.roof import roof_view
from jumar.show.html.profiles.stacked import stacked_view

VIEWS: dict[type[Any], Callable[[Any, str], Any]] = {
    Trace: lambda trace, _: trace,
    Flame: lambda flame, _: flame_view(flame),
    StackedBars: lambda chart, _: stacked_view(chart),
    Roofline: roof_view,
}
"""What prepares a block, given the id of its element."""
SCRIPTS: dict[type[Any], str] = {Trace: "trace.js", Flame: "flame.js"}
SHEET = "profiles.css"
