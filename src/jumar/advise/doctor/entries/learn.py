"""`propose`: an entry for a line that no entry knows: needle, pattern, and an example without private things."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jumar.advise.doctor.entries.signature import Kind
from jumar.base.errors import InputError

UNKNOWN_CAUSE = "Not known yet."
UNKNOWN_ACTION = "Not known yet. Read the lines around it."
_LONGEST = 220
"""Characters of a message that the pattern holds."""
_LEAST_LETTERS = 8
_MOST_TITLE = 90

_TIME = r"\d{4}[-/]\d\d[-/]\d\d[-T ]\d\d:\d\d:\d\d(?:[.,]\d+)*(?:Z|[+-]\d\d:?\d\d)?|\b\d\d:\d\d:\d\d(?:[.,]\d+)*"
_PREFIX = re.compile(
    rf"^(?:\s*(?:\[[^\]\n]{{0,80}}\]:?|\((?:[^)\n]{{0,60}}(?:pid|PID|rank)[^)\n]{{0,60}})\)|{_TIME}|"
    r"(?:DEBUG|INFO|EVENT|WARN(?:ING)?|ERROR|CRITICAL|FATAL|E|W|I)\b:?(?=\s)|[\w./-]+\.(?:py|cc|cpp|h):\d+\]?:?|"
    r"[A-Z][A-Z0-9_]+\(\d+,[^)\n]{0,60}\):?|[-:>|]+(?=\s)))+\s*"
)
"""Times, levels, ranks, processes and files in front of a message."""
_TOKENS = re.compile(
    rf"(?P<time>{_TIME})"
    r"|(?P<url>\b[a-z][a-z0-9+.-]{1,15}://[^\s'\"<>]+)"
    r"|(?P<email>\b[\w.+-]+@[\w-]+\.[\w.-]*\w)"
    r"|(?P<quoted>'[^'\n]{1,200}'|\"[^\"\n]{1,200}\"|`[^`\n]{1,200}`)"
    r"|(?P<uuid>\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b)"
    r"|(?P<mac>\b[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}\b)"
    r"|(?P<ip>\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b)"
    r"|(?P<path>(?<![\w.])~?(?:/[\w.@+=-]+)+/?|\b[A-Za-z]:\\[\w.\\@+=-]+)"
    r"|(?P<hex>\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b)"
    r"|(?P<number>(?<![\w.])[-+]?\d+(?:\.\d+)*(?:[eE][-+]?\d+)?(?![\w])|\d+)"
)
_PATTERNS = {
    "time": r"[-\d/T:.,+Z ]+",
    "url": r"[a-z][a-z0-9+.-]*://\S+",
    "email": r"\S+@\S+",
    "uuid": r"[0-9a-fA-F-]{36}",
    "mac": r"[0-9a-fA-F:]{17}",
    "ip": r"\d+(?:\.\d+){3}(?::\d+)?",
    "path": r"[^\s'\",;]+",
    "hex": r"(?:0x)?[0-9a-fA-F]+",
    "number": r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?",
}
_MASKS = {
    "url": "http://example.com/path",
    "email": "user@example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "mac": "02:00:00:00:00:01",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """An entry to be completed by a person."""

    name: str
    kind: Kind
    pattern: str
    needle: str
    title: str
    example: str

    def to_toml(self) -> str:
        """Return the file of the entry. Cause and action are to be filled in."""
        lines = [
            "# Fill in title, cause and action. Then: jumar doctor --test-entries",
            "version = 1",
            "",
            "[[errors]]",
            f"name = {_quoted(self.name)}",
            f"kind = {_quoted(self.kind)}",
            *([f"needle = {_quoted(self.needle)}"] if self.needle else []),
            f"pattern = {_quoted(self.pattern)}",
            'severity = "error"       # error, warning or advice',
            'role = "cause"           # cause, symptom, wrapper, consequence or harmless',
            f"title = {_quoted(self.title)}",
            f"cause = {_quoted(UNKNOWN_CAUSE)}",
            f"action = {_quoted(UNKNOWN_ACTION)}",
            f"example = {_quoted(self.example)}",
        ]
        return "\n".join(lines) + "\n"


def propose(line: str, *, code: str = "", ordinary: Sequence[str] = ()) -> Proposal:
    """Return an entry that recognises `line` and its variants; `code` is the vendor's code that leads it, if any.

    Numbers, times, paths, addresses and quoted names may differ in a variant. Raises InputError where the line has
    too few words of its own, or where the pattern would recognise one of the `ordinary` lines.
    """
    text = line.rstrip("\r\n")
    message = text[_PREFIX.match(text).end() :] if _PREFIX.match(text) else text  # type: ignore[union-attr]
    if sum(map(str.isalpha, message)) < _LEAST_LETTERS:
        message = text.strip()
    if code:
        return Proposal(
            name=code, kind="code", pattern=re.escape(code), needle="", title=_title(message), example=_masked(text)
        )
    pieces = list(_pieces(message))
    needle = _needle(pieces)
    pattern = "".join(_PATTERNS[kind] if kind in _PATTERNS else _literal(kind, said) for kind, said in pieces)
    if sum(map(str.isalpha, needle)) < _LEAST_LETTERS // 2:
        raise InputError(
            f"the line has no words of its own to be recognised by: {text[:_MOST_TITLE]!r}. Choose another."
        )
    clash = next((one for one in ordinary if needle in one and re.search(pattern, one)), None)
    if clash is not None:
        raise InputError(f"an entry for {text[:_MOST_TITLE]!r} would recognise an ordinary line, too: {clash!r}.")
    return Proposal(
        name=_name(pieces), kind="message", pattern=pattern, needle=needle, title=_title(message), example=_masked(text)
    )


def _pieces(message: str) -> Iterator[tuple[str, str]]:
    """Yield the kind (`text` for words) and the text of each piece, up to the longest pattern."""
    at = 0
    for match in _TOKENS.finditer(message):
        if match.start() >= _LONGEST:
            break
        if match.start() > at:
            yield "text", message[at : match.start()]
        yield str(match.lastgroup), match[0]
        at = match.end()
    if at < min(len(message), _LONGEST):
        yield "text", message[at:_LONGEST].rstrip()


def _literal(kind: str, said: str) -> str:
    """Return the pattern of words, or of a name in quotes."""
    if kind == "quoted":
        quote = said[0]
        return f"{quote}[^{quote}]*{quote}"
    return re.escape(said).replace("\\ ", " ")


def _needle(pieces: Sequence[tuple[str, str]]) -> str:
    """Return the longest words between what may differ."""
    words = [said.strip() for kind, said in pieces if kind == "text"]
    return max(words, key=lambda said: (sum(map(str.isalpha, said)), len(said)), default="")


def _name(pieces: Sequence[tuple[str, str]]) -> str:
    words = re.findall(r"[A-Za-z]{2,}", " ".join(said for kind, said in pieces if kind == "text"))
    return "own-" + "-".join(word.lower() for word in words[:5])


def _title(message: str) -> str:
    title = _masked(message).strip()
    return (title if len(title) <= _MOST_TITLE else title[: _MOST_TITLE - 1] + "…").rstrip(".") or "An error"


def _masked(text: str) -> str:
    """Return a line without addresses, names of persons, and folders."""
    return _TOKENS.sub(lambda match: _mask(str(match.lastgroup), match[0]), text)


def _mask(kind: str, said: str) -> str:
    if kind == "ip":
        port = said.partition(":")[2]
        return "192.0.2.1" + (f":{port}" if port else "")
    if kind == "path":
        return "/path/to/" + re.split(r"[/\\]", said.rstrip("/\\"))[-1]
    if kind == "quoted":
        return said[0] + _masked(said[1:-1]) + said[-1]
    return _MASKS.get(kind, said)


def _quoted(text: str) -> str:
    """Return a text as TOML writes it in double quotes."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
