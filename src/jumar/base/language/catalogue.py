"""`Catalogue`: the texts of one language, read from `jumar/locale/LANGUAGE/LC_MESSAGES/jumar.mo`."""

from __future__ import annotations

import functools
import gettext
import re
from collections.abc import Iterator, Mapping
from importlib import resources

_HOLE = "{}"
_NUMBERED = re.compile(r"\{(\d*)\}")
_SENTENCE = re.compile(r"(?<=[.!?:;])(\s+)")
"""Where a text may be cut into parts that are translated one by one."""
_DEEPEST = 4
"""How often what stands in a hole may have holes itself."""
_PREFIX = 4
"""Characters of a template's beginning that it is looked up by."""


class Catalogue:
    """Texts and templates with their translations.

    A template has `{}` where a program puts a value: `{} of {} ranks`. Its translation has as many, or numbered ones in
    another order: `{1} 个 rank 中的 {0} 个`. What stands in a hole is translated, too.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {source: target for source, target in texts.items() if _HOLE not in source}
        self._templates: dict[str, list[tuple[re.Pattern[str], str]]] = {}
        for source, target in sorted(texts.items(), key=lambda pair: -len(pair[0])):
            if _HOLE in source:
                begun = source.partition(_HOLE)[0][:_PREFIX]
                self._templates.setdefault(begun, []).append((_pattern(source), _numbered(target)))
        self.translate = functools.lru_cache(maxsize=4096)(self._translate)

    def _translate(self, text: str) -> str:
        whole = self._whole(text, _DEEPEST)
        if whole is not None:
            return whole
        parts = _SENTENCE.split(text)
        if len(parts) == 1:
            return text
        return "".join(self._whole(part, _DEEPEST) or part for part in parts)

    def _whole(self, text: str, depth: int) -> str | None:
        """Return the translation of a text as one piece, or None."""
        found = self._texts.get(text)
        if found is not None or depth == 0:
            return found
        for pattern, target in self._fitting(text):
            match = pattern.fullmatch(text)
            if match is not None:
                return target.format(*(self._whole(one, depth - 1) or one for one in match.groups()))
        return None

    def _fitting(self, text: str) -> Iterator[tuple[re.Pattern[str], str]]:
        """Yield the templates that the text can begin with, those with more letters of their own first."""
        for length in range(min(_PREFIX, len(text)), -1, -1):
            yield from self._templates.get(text[:length], ())


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("(.+?)".join(re.escape(part) for part in template.split(_HOLE)), re.DOTALL)


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
