"""`explain`: what a code, a name, a number or a whole line means, by the entries that fit it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jumar.advise.doctor.entries.codes import code_names, forms_of
from jumar.advise.doctor.entries.signature import Signature
from jumar.advise.doctor.entries.table import Table

_CODE = re.compile(r"E[A-Z0-9]\d{4}|ERR\d{5}")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|\d+")
_NAME = re.compile(r"ACL(?:NN)?_[A-Z0-9_]+|HCCL_E_[A-Z0-9_]+|DRV_ERROR_[A-Z0-9_]+")
_RANGE = "range-"
"""Entries of all codes of a part that have none of their own are named so."""
_MOST_NEAR = 6
_LIKENESS = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """An entry that fits, and the code that it was found by."""

    signature: Signature
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is known of a text."""

    text: str
    entries: tuple[Explained, ...] = ()
    read_as: str = ""
    """What the text was taken for where it is not the code itself: `507018` for a name or a hexadecimal number."""
    name: str = ""
    """The vendor's name of a return code, where it has one."""
    near: tuple[str, ...] = ()
    """Codes and names like it, where no entry fits."""

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain JSON values."""
        entries = [
            {**asdict(one.signature), "severity": one.signature.severity.label, "code": one.code}
            for one in self.entries
        ]
        said = {"text": self.text, "read_as": self.read_as, "vendor_name": self.name, "near": list(self.near)}
        return {**said, "entries": entries}


def explain(text: str, table: Table) -> Answer:
    """Return the entries that fit `text`: a code in any form, an entry's name, or lines of a log."""
    asked = text.strip()
    read_as = _plain(asked)
    found = _each_once([*_coded(read_as, table), *_named(asked, table), *_said(asked, table)])
    found = found or _each_once(_inside(asked, table))
    name = next((name for name, number in code_names().items() if number == read_as), "")
    near = () if found else tuple(_near(asked, read_as, table))
    return Answer(text=asked, entries=tuple(found), read_as=read_as if read_as != asked else "", name=name, near=near)


def _each_once(found: Iterable[Explained]) -> list[Explained]:
    first: dict[str, Explained] = {}
    for one in found:
        first.setdefault(one.signature.name, one)
    return list(first.values())


def _plain(asked: str) -> str:
    """Return a code as logs print it: the number of a name, a hexadecimal number in tens, letters in upper case."""
    upper = asked.upper().rstrip(":")
    if upper in code_names():
        return code_names()[upper]
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", asked):
        return str(int(asked, 16))
    return upper if _CODE.fullmatch(upper) else asked


def _named(asked: str, table: Table) -> Iterator[Explained]:
    yield from (Explained(signature=one) for one in table.signatures if one.name.lower() == asked.lower())


def _coded(code: str, table: Table) -> Iterator[Explained]:
    """Yield every entry whose pattern is of this code, the one that counts first; of a range only without another."""
    if not (_CODE.fullmatch(code) or _NUMBER.fullmatch(code) or _NAME.fullmatch(code)):
        return
    forms = tuple(forms_of(code))
    fitting = [one for one in table.signatures if one.kind != "message" and _fits(one, forms)]
    own = [one for one in fitting if not one.name.startswith(_RANGE)]
    yield from (Explained(signature=one, code=code) for one in own or fitting)


def _fits(signature: Signature, forms: Sequence[str]) -> bool:
    return any(re.fullmatch(signature.pattern, form) for form in forms)


def _said(asked: str, table: Table) -> Iterator[Explained]:
    """Yield what the lines of a log hold."""
    for line in asked.splitlines():
        for match in table.searcher(line.encode()).search(line):
            if match.signature is not None:
                yield Explained(signature=match.signature, code=match.code)


def _inside(asked: str, table: Table) -> Iterator[Explained]:
    """Yield entries of codes and names that stand in a line in a form that no log has."""
    for word in re.findall(r"\w+", asked):
        plain = _plain(word)
        is_code = _CODE.fullmatch(plain) or word.upper() in code_names() or re.fullmatch(r"[1-9]\d{5}", plain)
        if is_code:
            yield from _coded(plain, table)


def _near(asked: str, code: str, table: Table) -> Iterator[str]:
    known = [*(one.name for one in table.signatures), *code_names()]
    if _CODE.fullmatch(code):
        known = [name for name in known if name[:2] == code[:2]]
    close = difflib.get_close_matches(asked if " " not in asked else "", known, n=_MOST_NEAR, cutoff=_LIKENESS)
    yield from close
