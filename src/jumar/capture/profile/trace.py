"""Puts Jumar's events into the file that Kineto wrote, packed: `write_trace`."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from jumar.base.files import write_atomically
from jumar.capture.profile.log import EventLog

CHUNK = 4 << 20
LEVEL = 3
"""Of gzip: the third packs a trace to 5 % in a third of the time of the ninth."""

_Output = gzip.GzipFile

_BASE = re.compile(rb'"baseTimeNanoseconds":\s*(\d+)')
_EVENTS = re.compile(rb'"traceEvents":\s*\[')
_CONTROL = bytes(32 if code < 32 and code not in b"\t\n\r" else code for code in range(256))
"""Kineto writes control characters of names as they are, which JSON forbids: each becomes a space."""


def write_trace(kineto: Path | None, log: EventLog, target: Path, *, open_step: int | None = None) -> None:
    """Write `target` (`.json.gz`): the events of Kineto's file, if any, and those of the log.

    The mark of `open_step`, a step that was not complete, is renamed: its length says nothing. The file is whole or
    absent. Raises OSError.
    """

    def fill(part: Path) -> None:
        with gzip.GzipFile(part, "wb", compresslevel=LEVEL) as out:
            if kineto is None:
                _alone(log, out)
            else:
                with kineto.open("rb") as source:
                    _merged(_chunks(source), log, out, open_step)

    write_atomically(target, fill)


def _alone(log: EventLog, out: _Output) -> None:
    base_ns = log.earliest_ns
    out.write(b'{\n"displayTimeUnit": "ms",\n"baseTimeNanoseconds": %d,\n"traceEvents": [\n' % base_ns)
    out.write(",\n".join(_lines(log, base_ns)).encode())
    out.write(b"\n]}\n")


def _merged(chunks: Iterator[bytes], log: EventLog, out: _Output, open_step: int | None) -> None:
    """Copy a trace; Jumar's events stand before its first one."""
    head = next(chunks, b"")
    begin = _EVENTS.search(head)
    base = _BASE.search(head, 0, begin.start()) if begin is not None else None
    if begin is None:
        raise OSError("torch.profiler wrote a trace of an unknown form")
    out.write(head[: begin.end()])
    lines = ",\n".join(_lines(log, int(base[1]) if base is not None else 0))
    rest = head[begin.end() :]
    while not rest.strip() and (more := next(chunks, b"")):
        rest += more
    if lines:
        out.write(b"\n" + lines.encode() + (b"\n" if rest.lstrip()[:1] == b"]" else b",\n"))
    out.write(_marked(rest, open_step))
    for chunk in chunks:
        out.write(_marked(chunk, open_step))


def _lines(log: EventLog, base_ns: int) -> Iterator[str]:
    return (json.dumps(event) for event in log.to_chrome(base_ns))


def _marked(chunk: bytes, open_step: int | None) -> bytes:
    if open_step is None:
        return chunk
    return chunk.replace(b'"ProfilerStep#%d"' % open_step, b'"unfinished step %d"' % open_step)


def _chunks(source: IO[bytes]) -> Iterator[bytes]:
    """Yield the file in pieces that end with a line."""
    rest = b""
    while piece := source.read(CHUNK):
        whole, newline, tail = (rest + piece).rpartition(b"\n")
        rest = tail
        if newline:
            yield (whole + newline).translate(_CONTROL)
    if rest:
        yield rest.translate(_CONTROL)
