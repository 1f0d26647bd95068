"""What the C++ of the hot path needs of the observer: the objects it reads and writes, and what it asks Python."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from jumar.capture.notes.attribution import Attribution, Origin, Origins
from jumar.capture.notes.calls import Call, Layout, Seen, Site, Tally, arguments_text
from jumar.capture.notes.clock import RunClock
from jumar.capture.notes.memory import is_wrapper, local_part
from jumar.capture.notes.operators import OperatorInfo, operator_info
from jumar.capture.probes import Probe, SketchProbe, SourceProbe, StatsProbe
from jumar.capture.watch.gradients import Pending
from jumar.capture.watch.stack import Frame
from jumar.recording import sketch

if TYPE_CHECKING:
    from jumar.capture.watch.modules import CallWatch
    from jumar.capture.watch.notebook import Notebook
    from jumar.capture.watch.operators import OperatorWatch

_NOTHING, _STATISTICS, _SKETCHES, _BY_PYTHON = range(4)


class Host:
    """The attributes of this object are read once, by `set_up`."""

    def __init__(
        self, notebook: Notebook, operators: OperatorWatch, calls: CallWatch, attribution: Attribution
    ) -> None:
        self.Call, self.Clock, self.Seen, self.Site, self.Tally = Call, RunClock, Seen, Site, Tally
        self.Frame, self.Origin = Frame, Origin
        self.notebook = notebook
        self._source = next(probe for probe in notebook.probes if isinstance(probe, SourceProbe))
        self._elements: dict[Any, int] = {}
        self._folded = np.ascontiguousarray(sketch.fold().reshape(-1))
        self.tile, self.fold = sketch.tile().ctypes.data, self._folded.ctypes.data
        self.watch, self.autocast, self.clock = notebook.watch, notebook.autocast.stack, notebook.clock
        self.values = kind_of_values(notebook.tensor_probes)
        self.notes_optimizer_values = operators.notes_optimizer_values
        self.site_of, self.fail = notebook.site_of, notebook.on_failure
        self.module_site_of, self.on_gradient = calls.site_of, calls.on_gradient
        self.hook_leaf = calls.gradients.hook
        self.outside, self.of_parameter = operators.outside, operators.of_parameter
        self.find_origin = attribution.find
        self.Origins, self.Pending = Origins, Pending
        self.origins_by_thread, self.callers, self.origins_here = (
            attribution.by_thread, attribution.callers, attribution.here,
        )  # fmt: skip

    def describe(self, name: str, overload: str) -> tuple[OperatorInfo, bool, bool, bool, bool, tuple[int, ...]] | None:
        """Return what is known of an operator; None for one whose calls Python must note."""
        namespace, _, short = name.partition("::")
        info = operator_info(getattr(getattr(getattr(torch.ops, namespace), short), overload or "default"))
        if info.collective or info.reads_later or info.is_marker or info.draws:
            return None
        return info, info.is_view, info.is_copy, info.is_uninitialised, info.returns_writes, info.writes

    def text_of(self, call: Call) -> str:
        """Return the arguments of a call, as a row has them, to be shared by calls with equal ones."""
        return arguments_text(call.arguments)

    def is_users(self, code: CodeType) -> bool:
        """Tell whether a line of this code is shown."""
        return bool(self._source.shown(code))

    def line_of(self, frame: FrameType) -> str:
        """Return the line of a frame of the user's code."""
        return self._source.find(frame)

    def layout_of(self, tensor: torch.Tensor) -> Layout:
        """Return how a tensor lies in memory, its `elements` numbered."""
        layout = Layout(tensor)
        layout.elements = self._elements.setdefault((tensor.device, layout.addresses), len(self._elements) + 1)
        return layout

    def look(self, seen: Seen, tensor: torch.Tensor) -> None:
        """Let the probes look at a tensor that is new."""
        part = local_part(tensor)
        if not is_wrapper(part):
            for probe in self.notebook.tensor_probes:
                probe.on_tensor(seen, part)


def kind_of_values(probes: Sequence[Probe]) -> int:
    """Return which values the C++ takes by itself for these probes."""
    kinds = [type(probe) for probe in probes]
    if not kinds:
        return _NOTHING
    if kinds == [StatsProbe]:
        return _STATISTICS
    return _SKETCHES if kinds == [SketchProbe, StatsProbe] else _BY_PYTHON


def is_fit(notebook: Notebook) -> bool:
    """Tell whether the notes of the next step are those that the C++ takes."""
    return (
        notebook.selection is None
        and not notebook.skips_views
        and [type(probe) for probe in notebook.call_probes] == [SourceProbe]
        and not _device_is_emulated()
    )


def _device_is_emulated() -> bool:
    """Tell whether an emulated device is up, whose tensors only Python knows how to look at."""
    state = sys.modules.get("jumar.npu.core.state")
    return state is not None and bool(state.STATE.active)
