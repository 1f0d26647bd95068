"""The table of known errors (`data/errors.json`) and the search for them in one line.

Three kinds of entries: a *message* (a regular expression anywhere in the line), a *code* of the vendor in
front of a colon or after the device bracket (`EI0002:`, `ERR00100 PTA`), and an AscendCL *return code* after
words such as `error code is`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, get_args

from jumar.base.findings import Severity

Kind = Literal["message", "code", "return-code"]
Role = Literal["cause", "symptom", "wrapper", "consequence", "harmless"]
"""Meaning of a line: the cause itself; what the cause led to; that a call failed (another line gives the reason);
that another rank or process failed; harmless."""

CODE = re.compile(r"\b(?:(E[A-Z0-9]\d{4}):\s|(ERR\d{5})\s)")
RETURN_CODE = re.compile(
    r"(?:error code(?: is)?|errcode|retcode|runtime result|\bret)\s?[:=\[]?\s?(?:is)?[:=\[]?\s?(\d{6})\b", re.IGNORECASE
)
# Whether a block can hold a code at all. NOTE: the expressions above take 30 to 50 ms a MiB, these 2 ms (measured).
_CODE_BYTES = re.compile(rb"E[A-Z0-9]\d{4}:\s")
_RETURN_CODE_WORDS = (b"error code", b"errcode", b"retcode", b"runtime result", b"ret[", b"ret:", b"ret=", b"ret ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One known error: how to recognise it, what it means, what to do, and where that is written."""

    name: str
    kind: Kind
    pattern: str
    title: str
    cause: str
    action: str
    source: str
    example: str
    severity: Severity = Severity.ERROR
    role: Role = "cause"
    needle: str = ""
    """Text that every matching line contains: a fast test before the expression (messages only)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """An error in a line; `code` is the vendor's code as printed, empty for messages."""

    signature: Signature | None
    """None for a code that the table does not have."""
    code: str = ""


class Table:
    """All signatures, ready for searching."""

    def __init__(self, signatures: tuple[Signature, ...]) -> None:
        self.signatures = signatures
        self._messages = tuple(_Message(item) for item in signatures if item.kind == "message")

    def searcher(self, data: bytes) -> Searcher:
        """Return a searcher for the lines of `data` that tries only what can be in it; false when that is nothing."""
        lower = data.lower()
        return Searcher(
            self,
            tuple(message for message in self._messages if message.needle in data),
            codes=b"ERR" in data or _CODE_BYTES.search(data) is not None,
            return_codes=any(word in lower for word in _RETURN_CODE_WORDS),
        )

    def of_code(self, code: str) -> Signature | None:
        """Return the entry of a vendor code such as `EI0002`, or None when the table has none."""
        return self._of("code", code)

    def of_return_code(self, number: str) -> Signature | None:
        """Return the entry of an AscendCL return code such as `507015`, or None when the table has none."""
        return self._of("return-code", number)

    def _of(self, kind: Kind, text: str) -> Signature | None:
        fitting = (item for item in self.signatures if item.kind == kind and re.fullmatch(item.pattern, text))
        return next(fitting, None)


class _Message:
    """A message entry with its expression compiled."""

    def __init__(self, signature: Signature) -> None:
        self.needle = signature.needle.encode()
        self.text = signature.needle
        self.pattern = re.compile(signature.pattern)
        self.match = Match(signature=signature)


@dataclass(frozen=True, slots=True)
class Searcher:
    """Looks for known errors line by line within one block of a log."""

    table: Table
    messages: tuple[_Message, ...]
    codes: bool
    return_codes: bool

    def __bool__(self) -> bool:
        return bool(self.messages) or self.codes or self.return_codes

    def search(self, line: str) -> Iterator[Match]:
        """Yield what `line` holds: each message once, each code once. A code that the table lacks has no signature."""
        for message in self.messages:
            if message.text in line and message.pattern.search(line):
                yield message.match
        if self.codes:
            for code in codes_in(line):
                yield Match(signature=self.table.of_code(code), code=code)
        if self.return_codes:
            for number in dict.fromkeys(RETURN_CODE.findall(line)):
                signature = self.table.of_return_code(number)
                if signature is not None:
                    yield Match(signature=signature, code=number)


def codes_in(line: str) -> list[str]:
    """Return the vendor codes that `line` reports, each once."""
    return list(dict.fromkeys(first or second for first, second in CODE.findall(line)))


@functools.cache
def known_errors() -> Table:
    """Return the table that comes with Jumar."""
    text = (resources.files("jumar.advise.doctor") / "data" / "errors.json").read_text("utf-8")
    return parse_table(json.loads(text))


def parse_table(document: Mapping[str, object]) -> Table:
    """Return the table in `document`. Raises ValueError when an entry breaks a rule of the format."""
    sources, errors = document["sources"], document["errors"]
    if not isinstance(sources, dict) or not isinstance(errors, list):
        raise ValueError("a table of errors must have an object `sources` and a list `errors`")
    return Table(tuple(_signature(entry, sources) for entry in errors))


def _signature(entry: Mapping[str, Any], sources: Mapping[str, str]) -> Signature:
    fields = dict(entry)
    name = fields.get("name", "?")
    if fields.get("kind") not in get_args(Kind) or fields.get("role") not in get_args(Role):
        raise ValueError(f"the entry {name!r} must have one of the known kinds and roles")
    if (fields["kind"] == "message") != bool(fields.get("needle")):
        raise ValueError(f"the entry {name!r} must have a needle if it is a message, and only then")
    fields["severity"] = Severity.parse(fields["severity"])
    fields["source"] = sources[fields["source"]]
    return Signature(**fields)
