"""Messages in the user's language: `translate` a text, or leave it as it is.

Programs write English. What people read is translated where it is shown: a catalogue of gettext has texts, and
templates of texts (`{} lines of {} read.`), which are found again in the finished sentence.
"""

from __future__ import annotations

from jumar.base.text.language.choice import chosen, in_language, use

__all__ = ["chosen", "colon", "in_language", "translate", "use"]


def colon() -> str:
    """Return what stands between a label and its text."""
    return ": " if chosen() == "en" else "："


def translate(text: str) -> str:
    """Return a text in the chosen language; what the catalogue lacks stays English, sentence by sentence."""
    language = chosen()
    if language == "en" or not text:
        return text
    from jumar.base.text.language.catalogue import read_catalogue

    return read_catalogue(language).translate(text)
