"""Messages in the user's language: `translate` a text, or leave it as it is.

Programs write English. What people read is translated where it is shown: a catalogue of gettext has texts, and
templates of texts (`{} lines of {} read.`), which are found again in the finished sentence.
"""

from __future__ import annotations

from jumar.base.language.catalogue import Catalogue, read_catalogue
from jumar.base.language.choice import chosen, in_language, use

__all__ = ["Catalogue", "chosen", "in_language", "read_catalogue", "translate", "use"]


def translate(text: str) -> str:
    """Return a text in the chosen language; what the catalogue lacks stays English, sentence by sentence."""
    language = chosen()
    return text if language == "en" or not text else read_catalogue(language).translate(text)
