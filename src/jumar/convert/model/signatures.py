"""Reads the vendor's and PyTorch's signatures from their text, and tells what a call may pass."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

_NAME = re.compile(r"\s*(\*{0,2})(/|\w*)")


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters by how they can be passed; `open_end` and `open_keywords` stand for `*args` and `**kwargs`."""

    positional: tuple[str, ...] = ()
    keywords: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    open_end: bool = False
    open_keywords: bool = False

    def complaint(self, call: cst.Call) -> str | None:
        """Return why the signature does not take the call's arguments, None when it does or cannot be told."""
        if any(arg.star for arg in call.args):
            return None
        by_keyword = [arg.keyword.value for arg in call.args if arg.keyword is not None]
        num_positional = len(call.args) - len(by_keyword)
        if num_positional > len(self.positional) and not self.open_end:
            return f"it takes at most {len(self.positional)} positional arguments, here are {num_positional}"
        for name in by_keyword:
            if name not in self.keywords and not self.open_keywords:
                return f"it takes no argument by the name `{name}`"
        missing = self.required - set(self.positional[:num_positional]) - set(by_keyword)
        return f"`{min(missing)}` is missing" if missing else None


@functools.lru_cache(maxsize=2048)
def read_signature(text: str, *, method: bool = False) -> Signature:
    """Return the signature `text` writes, `(self, device=None, *, dtype=None) -> int`; `method` drops the first name.

    Defaults and annotations may be any text with balanced brackets, as in the vendor's tables.
    """
    positional: list[str] = []
    only_positional: set[str] = set()
    keywords: set[str] = set()
    required: set[str] = set()
    open_end = open_keywords = after_star = False
    for number, (stars, name, has_default) in enumerate(_parameters(text)):
        if method and number == 0 and name in ("self", "cls", "ctx"):
            continue
        if name == "/":
            only_positional.update(positional)
        elif stars == "**":
            open_keywords = True
        elif stars == "*":
            open_end, after_star = open_end or bool(name), True
        else:
            keywords.add(name)
            if not after_star:
                positional.append(name)
            if not has_default:
                required.add(name)
    return Signature(
        tuple(positional), frozenset(keywords - only_positional), frozenset(required), open_end, open_keywords
    )


def read_schema(text: str) -> Signature:
    """Return the signature of an operator's schema, `(Tensor self, int n, *, int? dtype=None) -> Tensor`."""
    inside = text.partition("(")[2].rpartition("->")[0].strip().removesuffix(")")
    # Commas inside of brackets (`int[2]`, `[1, 1]`) part nothing.
    parts = (part.partition("=") for part in re.split(r",(?![^\[(]*[\])])", inside) if part.strip())
    names = [left.split()[-1] + ("=..." if equal else "") for left, equal, _ in parts]
    return read_signature(f"({', '.join(names)})")


def _parameters(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield (stars, name, has a default) of each parameter; `*` and `/` by themselves are parameters, too."""
    for part in _parts(text.partition("(")[2]):
        found = _NAME.match(part)
        if found is not None and (found[1] or found[2]):
            yield found[1], found[2], _has_default(part)


def _parts(inside: str) -> Iterator[str]:
    depth, part = 0, ""
    for character in inside:
        if depth == 0 and character in ",)":
            yield part
            if character == ")":
                return
            part = ""
            continue
        depth += character in "([{"
        depth -= character in ")]}"
        part += character


def _has_default(part: str) -> bool:
    depth = 0
    for character in part:
        if character == "=" and depth == 0:
            return "<required parameter>" not in part
        depth += character in "([{"
        depth -= character in ")]}"
    return False
