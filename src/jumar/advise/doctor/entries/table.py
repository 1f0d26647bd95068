"""`Table`: all known errors, and the search for them in one line.

Three kinds of entries: a *message* (a regular expression anywhere in the line), a *code* of the vendor (`EI0002`,
`ERR00100`), and a *return code*: a number (`507018`) or its name. `codes.py` knows the forms of both.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from jumar.advise.doctor.entries.codes import (
    MARKS,
    codes_in,
    forms_of,
    may_hold_code,
    may_hold_return_code,
    return_codes_in,
)
from jumar.advise.doctor.entries.signature import Kind, Signature

_CODE_BYTES = re.compile(rb"E[A-Z0-9]\d{4}|ERR\d{5}")
"""Whether a block can hold a code at all."""


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

    def __reduce__(self) -> tuple[type[Table], tuple[tuple[Signature, ...]]]:
        return type(self), (self.signatures,)  # expressions are compiled where they are used

    @property
    def needles(self) -> tuple[str, ...]:
        """The needles of the messages; a message's number is the place of its needle."""
        return tuple(message.text for message in self._messages)

    @property
    def code_marks(self) -> tuple[str, ...]:
        """Texts in lower case of which every line with a return code holds one."""
        return MARKS

    def codes_of_form(self, form: str) -> Mapping[str, bool]:
        """Tell which codes a line can hold of which only the form is known: each of its digits is 1."""
        return {"codes": may_hold_code(form), "return_codes": may_hold_return_code(form)}

    def searcher_of(self, messages: Iterable[int], *, codes: bool, return_codes: bool) -> Searcher:
        """Return a searcher that tries the messages with these numbers, and codes where these can be there."""
        return Searcher(self, tuple(self._messages[number] for number in messages), codes, return_codes)

    def searcher(self, data: bytes) -> Searcher:
        """Return a searcher for the lines of `data` that tries only what can be in it; false when that is nothing."""
        lower = data.lower()
        return Searcher(
            self,
            tuple(message for message in self._messages if message.needle in data),
            codes=_CODE_BYTES.search(data) is not None,
            return_codes=any(mark.encode() in lower for mark in MARKS),
        )

    def of_code(self, code: str) -> Signature | None:
        """Return the entry of a vendor code such as `EI0002`, or None when the table has none."""
        return self._of("code", code)

    def of_return_code(self, code: str) -> Signature | None:
        """Return the entry of a return code (`507015`, `0x7bc87` or its name), or None when the table has none."""
        forms = tuple(forms_of(code))
        fitting = (self._of("return-code", form) for form in forms)
        return next((signature for signature in fitting if signature is not None), None)

    def _of(self, kind: Kind, text: str) -> Signature | None:
        fitting = (item for item in self.signatures if item.kind == kind and re.fullmatch(item.pattern, text))
        return next(fitting, None)


class _Message:
    """A message entry with its expression compiled."""

    def __init__(self, signature: Signature) -> None:
        self.needle = signature.needle.encode()
        self.text = signature.needle
        self.match = Match(signature=signature)

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when a line has the needle: few of the hundreds ever do."""
        return re.compile(self.match.signature.pattern) if self.match.signature else re.compile("")


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
            for code in return_codes_in(line):
                signature = self.table.of_return_code(code)
                if signature is not None:
                    yield Match(signature=signature, code=code)
