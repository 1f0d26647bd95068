"""The line of the user's own code that an event was called from."""

from __future__ import annotations

import re
import sys

import numpy as np
import numpy.typing as npt

from jumar.timeline.model import nesting
from jumar.timeline.model.events import Integers

FRAME = re.compile(r"(?P<file>[^;()<>]+\.py)\((?P<line>\d+)\): ")
LIBRARIES = {"torch", "torch_npu", "torchvision", "functorch", *sys.stdlib_module_names}
"""First parts of the paths of files that are nobody's own: Kineto cuts the folder of the installation away."""
INSTALLED = re.compile(r"(^|[/\\])(site-packages|dist-packages|lib[/\\]python3[.\d]*)[/\\]")


def own_line(frame: str) -> str:
    """Return `train.py:41` for the frame of a user's own file, else nothing."""
    match = FRAME.match(frame)
    if match is None or INSTALLED.search(match["file"]):
        return ""
    first = re.split(r"[/\\]", match["file"])[0].removesuffix(".py")
    return "" if first in LIBRARIES else f"{match['file']}:{match['line']}"


def own_line_of(stack: str) -> str:
    """Return the innermost own line of a `Call stack`, which has the innermost frame first."""
    return next((line for frame in stack.split(";") if (line := own_line(frame.strip()))), "")


def calling_lines(
    starts: Integers, durations: Integers, lanes: Integers, pairs: Integers, is_own: npt.NDArray[np.bool_]
) -> Integers:
    """Return for each event the pair of the innermost own Python function around it, -1 for none.

    `is_own` tells for each pair whether it is a call of a function in a file of the user.
    """
    order = nesting.in_order(lanes, starts, durations)
    holders = nesting.parents(lanes[order], starts[order], durations[order])
    functions = nesting.nearest(holders, is_own[pairs[order]])
    found = np.empty(len(order), np.int64)
    found[order] = np.where(functions == nesting.NO_PARENT, -1, pairs[order][functions])
    return found
