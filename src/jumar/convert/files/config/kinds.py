"""Kinds of configurations: YAML, JSON, TOML, INI."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from jumar.convert.files.config.entries import Entry, Scanner
from jumar.convert.files.config.flow import scan_flow, scan_json
from jumar.convert.files.config.values import value_proposals
from jumar.convert.files.config.yaml import scan_yaml
from jumar.convert.files.containers.images import container_proposals
from jumar.convert.files.draft.drafting import TRIGGER, Converted, convert_with
from jumar.convert.files.draft.kind import FileKind, is_text
from jumar.convert.files.requirements.requirement_files import listed_requirements
from jumar.convert.model.edits import Proposal
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Outcome
from jumar.convert.model.project import ProjectFacts

_HEADER = re.compile(r"[ \t]*\[\[?([^\]\r\n]*)\]\]?")
_BARE = r"""(?:[A-Za-z0-9_-]+|"[^"\r\n]*"|'[^'\r\n]*')"""
_KEY = re.compile(rf"[ \t]*({_BARE}(?:[ \t]*\.[ \t]*{_BARE})*)[ \t]*=[ \t]*")
_PART = re.compile(_BARE)
_MULTILINE = re.compile(r'"""(.*?)"""|\'\'\'(.*?)\'\'\'', re.DOTALL)
_STRING = re.compile(r'"((?:[^"\\\r\n]|\\.)*)"|\'([^\'\r\n]*)\'')
_PLAIN = re.compile(r"[^\s#,]+")
_REST = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)?")
_INI_KEY = re.compile(r"([^\s#;=:\[][^=:\r\n]*?)[ \t]*[=:][ \t]*")
_INI_VALUE = re.compile(r"[ \t]*([^\s#;][^\r\n]*?)[ \t]*(?=\r|\n|$)")


def scan_toml(text: str) -> Iterator[Entry]:
    """Yield the values of a TOML document, in order."""
    at = 0
    table: tuple[str, ...] = ()
    while at < len(text):
        header, key = _HEADER.match(text, at), _KEY.match(text, at)
        if header is not None:
            table = _parts(header.group(1))
        elif key is not None:
            entries, end = _toml_value(text, key.end(), (*table, *_parts(key.group(1))), key.span(1))
            yield from entries
            at = max(end, at)
        rest = _REST.match(text, at)
        at = max(rest.end() if rest is not None else len(text), at + 1)


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(name))


def _toml_value(text: str, at: int, path: tuple[str, ...], key: tuple[int, int]) -> tuple[list[Entry], int]:
    if at < len(text) and text[at] in "[{":
        return scan_flow(text, at, path, hash_comments=True)
    for pattern in (_MULTILINE, _STRING, _PLAIN):
        match = pattern.match(text, at)
        if match is not None:
            break
    else:
        return [], at
    group = next((index for index in range(1, (match.lastindex or 0) + 1) if match.group(index) is not None), 0)
    entry = Entry(
        path=path, value=match.group(group), start=match.start(group), end=match.end(group),
        style="plain" if group == 0 else "quoted", key_span=key,
    )  # fmt: skip
    return [entry], match.end()


def scan_ini(text: str) -> Iterator[Entry]:
    """Yield the values of an INI file, in order; each further line of a value is an item of its key."""
    at, section = 0, ""
    path: tuple[str, ...] = ()
    while at < len(text):
        header = _HEADER.match(text, at)
        key = _INI_KEY.match(text, at)
        value_at, span = at, None
        if header is not None:
            section, path = header.group(1), ()
        elif key is not None:
            path, value_at, span = (section, key.group(1)), key.end(), key.span(1)
        value = _INI_VALUE.match(text, value_at) if header is None and path else None
        if value is not None and (span is not None or text[at] in " \t"):
            yield Entry(
                path=path, value=value.group(1), start=value.start(1), end=value.end(1), style="plain", key_span=span
            )
        rest = _REST.match(text, at)
        at = max(rest.end() if rest is not None else len(text), at + 1)


_DATA_NAMES = frozenset(
    {"vocab.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "package-lock.json"}
    | {"added_tokens.json", "merges.json", "poetry.lock", "uv.lock", "pnpm-lock.yaml", "yarn.lock"}
)
"""Files with these names hold data that only looks like configuration."""


def _matches(suffixes: frozenset[str]) -> Callable[[PurePosixPath, bytes], bool]:
    def matches(path: PurePosixPath, data: bytes) -> bool:
        return (
            (path.suffix.lower() in suffixes or path.name in suffixes)
            and path.name not in _DATA_NAMES
            and is_text(data)
        )

    return matches


_JSON_TRIGGER = re.compile(
    r"cuda|nccl|gpu|nvidia|8bit|4bit|32bit|onebit|paged_|flash|tf32|fp8|fused|lion|xformers", re.IGNORECASE
)
"""Narrower than for other formats, because much JSON is data."""


def _converts(
    scanner: Scanner, trigger: re.Pattern[str]
) -> Callable[[bytes, str, ConvertOptions, ProjectFacts], Outcome]:
    def convert(data: bytes, path: str, options: ConvertOptions, project: ProjectFacts) -> Outcome:
        def propose(text: str, options: ConvertOptions, project: ProjectFacts) -> Iterator[Proposal | Converted]:
            entries = list(scanner(text))
            containers = list(container_proposals(entries))
            yield from containers
            yield from listed_requirements(text, PurePosixPath(path), entries, options)
            claimed = {proposal.span for proposal in containers}
            rest = [entry for entry in entries if (entry.start, entry.end) not in claimed]
            yield from value_proposals(text, rest, options, project)

        return convert_with(data, path, options, project, propose, trigger)

    return convert


def _kind(name: str, scanner: Scanner, *suffixes: str) -> FileKind:
    trigger = _JSON_TRIGGER if name == "JSON" else TRIGGER
    return FileKind(name=name, matches=_matches(frozenset(suffixes)), convert=_converts(scanner, trigger))


YAML: FileKind = _kind("YAML", scan_yaml, ".yaml", ".yml")
JSON: FileKind = _kind("JSON", scan_json, ".json", ".jsonc", ".json5")
TOML: FileKind = _kind("TOML", scan_toml, ".toml")
INI: FileKind = _kind("INI", scan_ini, ".ini", ".cfg", ".conf", ".properties", ".env")
