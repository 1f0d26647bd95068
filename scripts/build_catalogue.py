"""Build the catalogues of messages: `python scripts/build_catalogue.py`.

Reads `src/jumar/locale/LANGUAGE/LC_MESSAGES/jumar.po`, checks that each text still stands in the sources, and writes
`jumar.mo` beside it, which is what a process reads. `--missing` lists texts that people see and no catalogue has.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "jumar"
LOCALES = SOURCES / "locale"
SHOWN = ("title", "headline", "message", "why", "action", "empty", "summary", "help", "detail", "footer")
"""Arguments whose texts people read."""


def template(node: ast.expr) -> str | None:
    """Return a constant text, or an f-string with `{}` where its values are; None for another expression."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(one.value if isinstance(one, ast.Constant) else "{}" for one in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = template(node.left), template(node.right)
        return None if left is None or right is None else left + right
    return None


def texts_of_sources() -> set[str]:
    """Return every text and template in the sources, templates, rules and data of Jumar."""
    found: set[str] = set()
    for file in SOURCES.rglob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.expr) and (text := template(node)) is not None:
                found.update((text, said(text)))
                found.update(paragraphs(text))
    for file in (SOURCES / "show" / "html" / "templates").glob("*.html"):
        text = file.read_text("utf-8")
        found.update(re.findall(r'\{\{ "([^"]+)"\|t \}\}', text))
        found.update(joined(one) for one in re.findall(r"\{\{ \(([^{}]+)\)\|t \}\}", text))
    for folder in ("base/rules", "advise/doctor/data", "convert/model/data"):
        for file in (SOURCES / folder).rglob("*.json"):
            found.update(strings(json.loads(file.read_text("utf-8"))))
    return found


def said(text: str) -> str:
    """Return an option's help without what click shows in brackets behind it."""
    return text.partition("  [")[0]


OF_CLICK = {
    "(Did you mean one of: {}?)",
    "Error:",
    "Missing argument '{}'.",
    "Missing command.",
    "Missing option '{}'.",
    "No such command '{}'. Did you mean {}?",
    "No such command '{}'. Try one of {}.",
    "No such option '{}'.",
    "No such option '{}'. (Did you mean one of: {}?)",
    "No such option '{}'. Did you mean '{}'?",
    "Options of the script follow `--`: {}",
    "Show this message and exit.",
    "Try '{}' for help.",
    "Usage",
    "default: {}",
    "required",
}
"""Texts that click writes."""


class Sources:
    """What the sources say: whole texts, their words, and which word follows which."""

    def __init__(self, texts: set[str]) -> None:
        self.texts = texts | OF_CLICK
        self.words: set[str] = set()
        self.pairs: set[tuple[str, str]] = set()
        for text in texts:
            words = words_of(text)
            self.words.update(words)
            self.pairs.update(pairwise(words))

    def say(self, text: str) -> bool:
        """Tell whether a text is there, or can be made of parts that are there.

        A program puts such a sentence together: each word stands in the sources, and all pairs of words do but those at
        the borders of the parts.
        """
        if text in self.texts:
            return True
        words = words_of(text)
        apart = sum(pair not in self.pairs for pair in pairwise(words))
        return all(word in self.words for word in words) and apart <= holes(text) + 3


def words_of(text: str) -> list[str]:
    """Return the words of a text in small letters; a plural's s is cut."""
    return [word.rstrip("s") for word in re.findall(r"[a-z][a-z'_-]*", text.lower())]


def joined(expression: str) -> str:
    """Return a template of Jinja's `"a " ~ b ~ " c"`."""
    parts = [part.strip() for part in expression.split("~")]
    return "".join(part[1:-1] if part.startswith('"') else "{}" for part in parts)


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring as help shows them."""
    for part in text.split("\n\n"):
        yield " ".join(part.split())


def strings(value: object) -> Iterator[str]:
    """Yield every text in a JSON document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def shown() -> set[str]:
    """Return texts that people certainly read: arguments of pages and findings, rules' summaries, help of options."""
    found: set[str] = set()
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg in SHOWN and (text := template(node.value)):
                found.add(text)
    return {said(text) for text in found if re.search(r"[a-z]{2}", text)}


def holes(text: str) -> int:
    """Return how many values a template takes."""
    return len(re.findall(r"\{\d*\}", text))


def complaints(language: str) -> list[str]:
    """Return what is wrong with a catalogue: texts that are gone, translations that lack or add a hole, empty ones."""
    with (LOCALES / language / "LC_MESSAGES" / "jumar.po").open("rb") as file:
        catalogue = read_po(file)
    sources = Sources(texts_of_sources())
    found = []
    for message in catalogue:
        source, target = str(message.id), str(message.string)
        if not source:
            continue
        if not sources.say(source):
            found.append(f"no source says {source!r}")
        if not target:
            found.append(f"{source!r} has no translation")
        elif holes(source) != holes(target):
            found.append(f"{source!r} takes {holes(source)} values and its translation {holes(target)}")
    return found


def build(language: str) -> bytes:
    """Return the compiled catalogue of a language."""
    folder = LOCALES / language / "LC_MESSAGES"
    with (folder / "jumar.po").open("rb") as file:
        catalogue = read_po(file)
    # NOTE: where the file names no dates, babel writes the minute of the build, and no two builds are the same.
    catalogue.creation_date = catalogue.revision_date = datetime(2026, 1, 1, tzinfo=timezone.utc)
    out = io.BytesIO()
    write_mo(out, catalogue)
    return out.getvalue()


def main() -> int:
    """Build every catalogue, or list what none has."""
    if "--missing" in sys.argv:
        with (LOCALES / "zh" / "LC_MESSAGES" / "jumar.po").open("rb") as file:
            have = {str(message.id) for message in read_po(file)}
        sys.stdout.write("".join(f"{text!r}\n" for text in sorted(shown() - have)))
        return 0
    for folder in sorted(LOCALES.iterdir()):
        wrong = complaints(folder.name)
        for one in wrong:
            sys.stderr.write(f"{folder.name}: {one}\n")
        if wrong:
            return 1
        (folder / "LC_MESSAGES" / "jumar.mo").write_bytes(build(folder.name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
