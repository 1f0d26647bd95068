"""The contract of a probe: something that looks at the calls of a run and notes what it sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jumar.capture.notes.calls import Call, Seen
from jumar.capture.notes.operators import OperatorInfo


class Probe:
    """Base of all probes. Methods are called on the thread of the run, with recording switched off.

    A probe must not change the run: no in-place operators on the run's tensors, no random numbers,
    no autograd graph, no reference to a tensor kept after the method returns (memory would not be
    freed when the script expects it). Waiting for the device is allowed in `on_step_end` only. What
    a probe raises ends the recording, not the run.
    """

    def on_tensor(self, seen: Seen, tensor: torch.Tensor) -> None:
        """Look at a tensor that was not seen in this state before; it may be on any device."""

    def on_call(self, call: Call, info: OperatorInfo | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Look at a call before it is made; for module calls and losses `info` is None and the arguments are empty."""

    def on_step_end(self, calls: Sequence[Call]) -> None:
        """Finish the notes of a step: bring results over from the device."""
