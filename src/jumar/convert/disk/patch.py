"""Unified diffs that `git apply` takes, for any line end, a missing last line end and any file name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

_CONTEXT_LINES = 3


def file_patch(path: str, before: bytes, after: bytes) -> bytes:
    """Return the patch from `before` to `after` of the file `path` (forward slashes), empty when they are equal."""
    if before == after:
        return b""
    # Latin-1 maps bytes to characters one to one, so that the diff works on bytes of any encoding.
    old, new = _lines(before), _lines(after)
    body = list(difflib.unified_diff(old, new, n=_CONTEXT_LINES))[2:]
    name_a, name_b = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    tab = "\t" if " " in path and not name_a.startswith('"') else ""
    head = f"diff --git {name_a} {name_b}\n--- {name_a}{tab}\n+++ {name_b}{tab}\n"
    return head.encode() + "".join(_marked(body)).encode("latin-1")


def _lines(data: bytes) -> list[str]:
    lines = data.decode("latin-1").split("\n")
    last = lines.pop()
    return [*(line + "\n" for line in lines), *([last] if last else [])]


def _marked(body: list[str]) -> Iterator[str]:
    for line in body:
        yield line
        if not line.endswith("\n"):
            yield "\n\\ No newline at end of file\n"


def _quoted(name: str) -> str:
    """Quote a file name the way git does, where it has to be quoted."""
    data = name.encode("utf-8", "surrogateescape")
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in data):
        return name
    special = {0x22: '\\"', 0x5C: "\\\\", 0x0A: "\\n", 0x09: "\\t"}
    return '"' + "".join(
        special.get(byte, chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}") for byte in data
    ) + '"'  # fmt: skip
