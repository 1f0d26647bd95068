"""Kinds of configurations: YAML, JSON, TOML, INI."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from jumar.migrate.edits import Proposal
from jumar.migrate.facts.project import ProjectFacts
from jumar.migrate.files.config.entries import Scanner
from jumar.migrate.files.config.flow import scan_json
from jumar.migrate.files.config.toml import scan_ini, scan_toml
from jumar.migrate.files.config.values import value_proposals
from jumar.migrate.files.config.yaml import scan_yaml
from jumar.migrate.files.containers import container_proposals
from jumar.migrate.files.drafting import TRIGGER, Converted, convert_with
from jumar.migrate.files.kind import FileKind, is_text
from jumar.migrate.files.requirement_files import listed_requirements
from jumar.migrate.options import ConvertOptions
from jumar.migrate.outcome import Outcome

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
