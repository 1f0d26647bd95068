"""Decides for each key whether its device words change in every file or in none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jumar.base.findings import Finding, Location
from jumar.base.text import listing
from jumar.convert.facts.use import Use
from jumar.convert.model.words import names_device, names_kernel
from jumar.convert.rules.tree import words_across_files

_MAX_NAMED = 8
_GENERIC = frozenset({"type", "name", "value", "default", "id", "kind", "key", "help"})
"""Keys that mean something else in every file."""


@dataclass(slots=True)
class _Key:
    """What the files of a project do with one key."""

    uses: list[tuple[str, Use]] = field(default_factory=list)

    @property
    def files(self) -> set[str]:
        return {path for path, _ in self.uses}

    def roles(self, *wanted: str) -> list[tuple[str, Use]]:
        return [(path, use) for path, use in self.uses if use.role in wanted]


def decide(uses: Mapping[str, Sequence[Use]], unreadable: Mapping[str, bytes]) -> tuple[dict[str, bool], list[Finding]]:
    """Return, for every key that hands words from file to file, whether they change, and what to say of the others.

    `unreadable` holds the Python files that cannot be converted: what they say of a key stays.
    """
    keys: dict[str, _Key] = defaultdict(_Key)
    for path in sorted(uses):
        for use in uses[path]:
            if use.key not in _GENERIC:
                keys[use.key].uses.append((path, use))
    words: dict[str, bool] = {}
    findings: list[Finding] = []
    for name, key in sorted(keys.items()):
        reason, place = _obstacle(name, key, unreadable)
        shared = len(key.files) > 1 or place[0] not in ("", *key.files)
        if not shared or not key.roles("write"):
            continue
        if not reason and _is_mixed(name, key):
            continue  # each file judges by the word: NCCL is the collectives' wherever it stands
        words[name] = not reason
        if reason:
            findings.append(_finding(name, key, reason, place))
    return words, findings


def _obstacle(name: str, key: _Key, unreadable: Mapping[str, bytes]) -> tuple[str, tuple[str, int]]:
    """Return why the words of a key stay, and the place that says so; an empty reason where they change."""
    written = key.roles("write")
    first = (written[0][0], written[0][1].line) if written else ("", 0)
    for path, use in key.roles("lookup"):
        return f"a table without an entry for the NPU is looked up with it in {path}", (path, use.line)
    quoted = (f'"{name}"'.encode(), f"'{name}'".encode(), f"--{name}".encode(), f".{name}".encode())
    for path, data in sorted(unreadable.items()):
        if any(form in data for form in (*quoted, f"--{name.replace('_', '-')}".encode())):
            return f"{path} speaks of it and cannot be converted", (path, 1)
    return _meaning(name, key), first


def _meaning(name: str, key: _Key) -> str:
    """Return why the key means no device and no back end of collectives; empty where it does."""
    devices = _devices(key)
    if not devices or _is_mixed(name, key):
        return ""
    if names_kernel(name):
        return "by its name it picks an implementation, which CUDA alone has"
    if names_device(name) or key.roles("device") or any(use.beside for use in devices):
        return ""
    return "nothing shows that it is a device"


def _devices(key: _Key) -> list[Use]:
    return [use for _, use in key.uses if use.word and "nccl" not in use.word.lower()]


def _is_mixed(name: str, key: _Key) -> bool:
    """Tell whether a key that is no device by its name is given devices and collectives alike."""
    return not names_device(name) and 0 < len(_devices(key)) < sum(bool(use.word) for _, use in key.uses)


def _finding(name: str, key: _Key, reason: str, place: tuple[str, int]) -> Finding:
    places = [f"{path}:{use.line}" for path, use in key.roles("write", "read")]
    return words_across_files.RULE.finding(
        f"The words given to `{name}` stay in all files, because {reason}.",
        where=Location(path=place[0], line=place[1]),
        evidence={"key": name, "places": list(places)},
        action=f"Change them together by hand where they mean the device: {listing(places, _MAX_NAMED)}.",
    )
