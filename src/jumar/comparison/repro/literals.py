"""Writes arguments as Python source."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

WIDTH = 100
LONGEST = 120


def literal(value: Any) -> str:
    """Return the source of an argument that holds no tensor; `f(...)` and `device` are names of the script."""
    if isinstance(value, torch.dtype):
        return f"f({value})"
    if isinstance(value, torch.device):
        return "device"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(literal(item) for item in value)}]"
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, (torch.layout, torch.memory_format)):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return quoted(value) if isinstance(value, str) else repr(value)


def quoted(text: str) -> str:
    """Return a string's source in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def called(function: str, arguments: Sequence[str], indent: str) -> str:
    """Return a call on one line, or with one argument a line where that is too long."""
    line = f"{function}({', '.join(arguments)})"
    if len(indent) + len(line) <= WIDTH:
        return line
    inner = indent + "    "
    return "\n".join([f"{function}(", *(f"{inner}{argument}," for argument in arguments), f"{indent})"])


def assigned(name: str, text: str) -> str:
    """Return the assignment of a string, in parentheses where only these keep it within a line."""
    source = quoted(text)
    line = f"{name} = {source}"
    return f"{name} = (\n    {source}\n)" if len(line) > LONGEST >= len(source) + 4 else line
