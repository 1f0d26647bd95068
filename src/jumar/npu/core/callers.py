"""Find the line of the user's code that made a call."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

_PRINTING = str(Path(torch.__file__).parent / "_tensor_str.py")
_NOT_THE_USERS = (str(Path(__file__).parents[2]), str(Path(torch.__file__).parent))


def user_frame() -> int:
    """Return the stacklevel, for `warnings.warn` in the caller, of the innermost frame outside PyTorch and Jumar."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        level, frame = level + 1, frame.f_back
    return level


def is_printing() -> bool:
    """Return whether PyTorch is making the text of a tensor: that arithmetic is not the user's."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_code.co_filename == _PRINTING:
            return True
        frame = frame.f_back
    return False
