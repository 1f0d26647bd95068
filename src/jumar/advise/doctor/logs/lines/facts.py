"""What a line of an error names beside the error: `device_in`, `operator_in`."""

from __future__ import annotations

import re

_DEVICE = re.compile(
    r"\b(?:device_?\s?id|dev_?id|devId|dev_num|npu_?id|Device(?= ?[:=\[]))\s*(?:is\s*)?[:=\[(]?\s*(0[xX][0-9a-fA-F]+|"
    r"\d+)(?![\w.])|"
    r"\bnpu:(\d+)\b",
    re.IGNORECASE,
)
_ACLNN = re.compile(r"\baclnn[A-Z]\w*?(?=GetWorkspaceSize\b|\b)")
_TYPE = re.compile(r"\b(?:op|node|kernel)[ _]?type\s*(?:is\s*)?[:=\[(]\s*['\"]?(\w+)", re.IGNORECASE)
_NAME = re.compile(r"\b(?:op|node|kernel|fault kernel)[ _]?name\s*(?:is\s*)?[:=\[(]\s*['\"]?([\w/.-]+)", re.IGNORECASE)
_MOST_DEVICES = 2**16


def device_in(line: str) -> int | None:
    """Return the device that a line names, in tens or hexadecimal; None where it names none."""
    match = _DEVICE.search(line)
    if match is None:
        return None
    number = int(match[1], 16) if match[1] and match[1][:2].lower() == "0x" else int(match[1] or match[2])
    return number if number < _MOST_DEVICES else None


def operator_in(line: str) -> str | None:
    """Return the operator that a line names: an aclnn function, an operator's type, else its name; None where none."""
    found = _ACLNN.search(line)
    if found is not None:
        return found[0]
    match = _TYPE.search(line) or _NAME.search(line)
    return match[1] if match else None
