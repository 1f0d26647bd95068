"""Names that a user rule matches: qualified names and attributes of unknown objects, with stars.

`ours.data.load` is one name, `ours.*.load` has any one part in the middle, `ours.**.load` any number
of parts, `.to_gpu` is the attribute of an object that is no imported name.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_PART = r"(?:\w|\*(?!\*))+"
_SHAPE = re.compile(rf"\.?(?:{_PART}|\*\*)(?:\.(?:{_PART}|\*\*))*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A pattern as it is written; `is_pattern` tells what may be."""

    text: str

    @property
    def is_attribute(self) -> bool:
        """Whether it means an attribute of an object that is no imported name."""
        return self.text.startswith(".")

    @property
    def num_stars(self) -> int:
        """Number of `*` and `**`. Each stands for some text."""
        return len(_stars(self.text))

    @property
    def word(self) -> str:
        """The longest stretch that every match spells out, "" where there is none."""
        return max(re.split(r"[.*]+", self.text), key=len)

    def match(self, name: str) -> tuple[str, ...] | None:
        """Return what the stars stand for in `name` (an attribute: without its dot), None for another name."""
        found = _compiled(self.text).fullmatch(name)
        return None if found is None else tuple(group or "" for group in found.groups())


def is_pattern(text: str) -> bool:
    """Tell whether `text` is a pattern: dotted names with stars, perhaps behind a dot."""
    if not _SHAPE.fullmatch(text):
        return False
    parts = text.removeprefix(".").split(".")
    return all("*" in part or is_name(part) for part in parts) and text not in ("*", "**")


def is_name(text: str) -> bool:
    """Tell whether `text` is one Python name that is no keyword."""
    return text.isidentifier() and not keyword.iskeyword(text)


def is_dotted_name(text: str) -> bool:
    """Tell whether `text` is Python names joined by dots."""
    return all(is_name(part) for part in text.split("."))


def fill(template: str, texts: Sequence[str]) -> str:
    """Return `template` with its stars, in their order, replaced by `texts`; `**.` for no part is nothing."""
    rest = iter(texts)

    def text_of(found: re.Match[str]) -> str:
        text = next(rest, "")
        return f"{text}." if found[0] == "**." and text else text

    return re.sub(r"\*\*\.|\*\*?", text_of, template)


def renamed(pattern: Pattern, old: str, new: str) -> str:
    """Return the name that `old`, which `pattern` matches, gets: `new` with its stars filled, or its last part only."""
    text = fill(new, pattern.match(old.removeprefix(".")) or ())
    parent = old.rpartition(".")[0]
    return text if "." in text or not parent else f"{parent}.{text}"


def _stars(text: str) -> list[str]:
    return re.findall(r"\*\*?", text)


@lru_cache(maxsize=4096)
def _compiled(text: str) -> re.Pattern[str]:
    text = text.removeprefix(".")
    translated = re.sub(
        r"(\*\*\.?)|(\*)|([^*]+)",
        lambda found: _any_parts(found[1]) if found[1] else r"([^.]*)" if found[2] else re.escape(found[3]),
        text,
    )
    return re.compile(translated)


def _any_parts(stars: str) -> str:
    """`**.` is any number of parts with a dot behind each; a last `**` at least one part."""
    return r"(?:(\S+?)\.)??" if stars.endswith(".") else r"(\S+)"
