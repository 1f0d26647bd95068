"""Which language messages are in: `JUMAR_LANG`, else a configuration file's, else the locale's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
_LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")
"""The first that is set counts (POSIX). `LANGUAGE` is gettext's own list, asked before them where a locale is set."""

_used: ContextVar[Language | None] = ContextVar("language", default=None)


def use(language: Language | None) -> None:
    """Have a configuration file's language where `JUMAR_LANG` names none; None: no file names one."""
    _used.set(language)


@contextmanager
def in_language(language: Language) -> Iterator[None]:
    """Have messages in a language within the block, whatever the environment says. For tests and writers of pages."""
    before = os.environ.get("JUMAR_LANG")
    os.environ["JUMAR_LANG"] = language
    try:
        yield
    finally:
        if before is None:
            del os.environ["JUMAR_LANG"]
        else:
            os.environ["JUMAR_LANG"] = before


def chosen(environ: Mapping[str, str] = os.environ) -> Language:
    """Return the language of messages: en or zh."""
    asked = environ.get("JUMAR_LANG", "").strip().lower()
    if asked:
        return "zh" if _is_chinese(asked) else "en"
    configured = _used.get()
    if configured is not None:
        return configured
    locale = next((environ[name] for name in _LOCALE if environ.get(name)), "")
    if locale.partition(".")[0] in {"", "C", "POSIX"}:
        return "en"
    listed = [one for one in environ.get("LANGUAGE", "").split(":") if one]
    return "zh" if _is_chinese((listed or [locale])[0]) else "en"


def _is_chinese(name: str) -> bool:
    return name.lower().replace("-", "_").partition("_")[0].partition(".")[0] in {"zh", "cn", "chinese"}
