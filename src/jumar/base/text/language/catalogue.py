"""`Catalogue`: the texts of one language, read from `jumar/locale/LANGUAGE/LC_MESSAGES/jumar.mo`."""

from __future__ import annotations

import functools
import gettext
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise

_HOLE = "{}"
_NUMBERED = re.compile(r"\{(\d*)\}")
_SENTENCE = re.compile(r"((?<=[.!?])\s+|(?<=[.!?]\))\s+)")
_PART = re.compile(r"(?<=[.!?:;])(\s+)")
"""Where a text may be cut into parts that are translated one by one: first at sentences, then at what is joined."""
_BORDER = re.compile(r"[.!?;]\s")
"""What a hole rarely has in it: the end of a sentence."""
_WORD = re.compile(r"\S+")
"""A hole with one word has a name, a number or a path, which stays; `shape` may be one, too."""
_QUOTES = "`'\""
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_BETWEEN_CHINESE = re.compile(r"(?<=[\u4e00-\u9fff，。：；）]) (?=[\u4e00-\u9fff（])")
_FEW_LETTERS = 16
"""A template with fewer letters of its own, such as `Use {}.`, must not be the frame of an English sentence."""
_SENTENCE_PART = re.compile(r"(?:\b[a-z]{2,}\b[ ,]+){2}\b[a-z]{2,}\b")
_ENGLISH = re.compile(r"[a-z]+,?|.*\b[a-z]{2,},? [a-z]{2,}.*", re.DOTALL)
"""What a short template may not begin with: a number, a name or Chinese must stand before `{} rows`."""
_AFTER_FULL_WIDTH = re.compile(r"(?<=[，。：；！？）]) +")
_DEEPEST = 4
"""How often what stands in a hole may have holes itself."""
_PREFIX = 4
"""Characters of a template's beginning that it is looked up by."""


@dataclass(frozen=True, slots=True)
class _Template:
    """A text with holes: its pattern, its translation for `format`, and which holes are quoted (code stays)."""

    pattern: re.Pattern[str]
    target: str
    quoted: tuple[bool, ...]
    is_short: bool
    begins_with_hole: bool

    def filled(self, values: Sequence[str]) -> str | None:
        """Return the translation with its values; None for a short template around English sentences."""
        if self.is_short and any(_SENTENCE_PART.search(one) for one in values if not one.startswith("jumar ")):
            return None
        if self.is_short and self.begins_with_hole and _ENGLISH.fullmatch(values[0]):
            return None
        return _BETWEEN_CHINESE.sub("", self.target.format(*values))


class Catalogue:
    """Texts and templates with their translations.

    A template has `{}` where a program puts a value: `{} of {} ranks`. Its translation has as many, or numbered ones in
    another order: `{1} 个 rank 中的 {0} 个`. What stands in a hole is translated, too, unless it is one word or quoted.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {source: target for source, target in texts.items() if _HOLE not in source}
        self._templates: dict[str, list[_Template]] = {}
        for source, target in sorted(texts.items(), key=lambda pair: -len(pair[0])):
            if _HOLE in source:
                begun = source.partition(_HOLE)[0][:_PREFIX]
                self._templates.setdefault(begun, []).append(_read_template(source, target))
        self.translate = functools.lru_cache(maxsize=4096)(self._translate)

    def _translate(self, text: str) -> str:
        """Return a text as a whole, else sentence by sentence, else by a template that has sentences in its holes."""
        whole = self._whole(text, _DEEPEST)
        if whole is not None:
            return whole
        told = self._cut(text, _DEEPEST)
        return self._whole(text, _DEEPEST, wide=True) or text if told == text else told

    def _cut(self, text: str, depth: int) -> str:
        """Return a text of which each sentence, else each part of it, is translated if it is known."""
        told: list[str] = []
        for sentence in _SENTENCE.split(text):
            whole = self._whole(sentence, depth)
            parts = [sentence] if whole is not None else _PART.split(sentence)
            told += [whole] if whole is not None else [self._whole(part, depth) or part for part in parts]
        return _AFTER_FULL_WIDTH.sub("", "".join(told))

    def _whole(self, text: str, depth: int, *, wide: bool = False) -> str | None:
        """Return the translation of a text as one piece, or None. `wide`: holes may hold whole sentences."""
        found = self._exact(text)
        if found is not None or depth == 0:
            return found
        for template in self._fitting(text):
            match = template.pattern.fullmatch(text)
            if match is not None and (wide or not any(map(_BORDER.search, match.groups()))):
                pairs = zip(match.groups(), template.quoted, strict=True)
                told = template.filled([one if code else self._hole(one, depth - 1) for one, code in pairs])
                if told is not None:
                    return told
        return None

    def _exact(self, text: str) -> str | None:
        """Return the translation of a text that has or lacks the full stop of the catalogue's."""
        found = self._texts.get(text)
        if found is None and text.endswith("."):
            found = self._texts.get(text[:-1])
            return None if found is None else f"{found}。"
        if found is None and f"{text}." in self._texts:
            return self._texts[f"{text}."].removesuffix("。")
        return found

    def _hole(self, text: str, depth: int) -> str:
        if not text or _WORD.fullmatch(text) or _CHINESE.search(text):
            return text
        return self._whole(text, depth) or self._cut(text, depth)

    def _fitting(self, text: str) -> Iterator[_Template]:
        """Yield the templates that the text can begin with, those with more letters of their own first."""
        for length in range(min(_PREFIX, len(text)), -1, -1):
            yield from self._templates.get(text[:length], ())


def _read_template(source: str, target: str) -> _Template:
    parts = source.split(_HOLE)
    quoted = tuple(before[-1:] in _QUOTES and before[-1:] == after[:1] != "" for before, after in pairwise(parts))
    pattern = re.compile("(.*?)".join(map(re.escape, parts)), re.DOTALL)
    is_short = sum(map(str.isalpha, source)) < _FEW_LETTERS
    return _Template(pattern, _numbered(target), quoted, is_short, source.startswith(_HOLE))


def _numbered(target: str) -> str:
    """Return a translation with the numbers of its holes, and its own braces doubled for `format`."""
    counted = iter(range(len(target)))
    out, at = [], 0
    for match in _NUMBERED.finditer(target):
        out.append(target[at : match.start()].replace("{", "{{").replace("}", "}}"))
        out.append("{" + (match[1] or str(next(counted))) + "}")
        at = match.end()
    out.append(target[at:].replace("{", "{{").replace("}", "}}"))
    return "".join(out)


@functools.cache
def read_catalogue(language: str) -> Catalogue:
    """Return the catalogue of a language; an empty one where it is not installed."""
    file = resources.files("jumar") / "locale" / language / "LC_MESSAGES" / "jumar.mo"
    try:
        with file.open("rb") as opened:
            found = gettext.GNUTranslations(opened)
    except OSError:
        return Catalogue({})
    texts: dict[object, str] = getattr(found, "_catalog", {})
    return Catalogue({source: target for source, target in texts.items() if isinstance(source, str) and source})
