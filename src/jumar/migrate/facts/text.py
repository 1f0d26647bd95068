"""Device and back-end words in files that are not Python: keys of configurations, arguments of commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from jumar.migrate.facts.use import Use, is_word, plain_key

_CONFIGURATION = frozenset({".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".jsonc", ".json5"})
_SCRIPT = frozenset({".sh", ".bash", ".zsh", ".ksh", ".slurm", ".sbatch", ".bat", ".mk"})
_SCRIPT_NAMES = re.compile(r"(?i)(docker|make)file.*|.*\.dockerfile")
_WORD = r"(?:cuda|gpu)(?::\d+)?|nccl|(?:\w+:\w+,)*cuda:nccl(?:,\w+:\w+)*"
_VALUE = rf"[\"']?(?P<word>{_WORD})[\"']?"
_KEY = r"(?:^|[{,\[])[ \t]*(?:-[ \t]+)?[\"']?(?P<key>[\w.@/-]+)[\"']?"
_ENTRY = re.compile(rf"(?im){_KEY}[ \t]*[:=][ \t]*{_VALUE}[ \t]*(?=[,}}\]#\r\n]|$)")
_ARGUMENT = re.compile(
    rf"(?im)(?<![\w-])(?P<key>--[\w.-]+|\+{{0,2}}[A-Za-z_][\w./@-]*(?==))(?:=|[ \t]+){_VALUE}(?![\w/.-])"
)
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")


def speaks(path: str, lowered: bytes) -> bool:
    """Tell whether a file that is not Python may hold words."""
    if b"cuda" not in lowered and b"nccl" not in lowered:
        return False
    return _is_configuration(path) or _is_script(path)


def uses_in_text(path: str, data: bytes) -> Iterator[Use]:
    """Yield the uses of a configuration or script; a value that a template fills in tells nothing."""
    text = _TEMPLATE.sub(lambda match: " " * len(match.group()), data.decode("utf-8", "replace"))
    patterns = [_ENTRY] if _is_configuration(path) else [_ARGUMENT]
    for pattern in patterns:
        for match in pattern.finditer(text):
            if is_word(match["word"]):
                line = text.count("\n", 0, match.start("word")) + 1
                yield Use(key=plain_key(match["key"]), role="write", word=match["word"], line=line)


def _is_configuration(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in _CONFIGURATION


def _is_script(path: str) -> bool:
    name = PurePosixPath(path)
    return name.suffix.lower() in _SCRIPT or _SCRIPT_NAMES.fullmatch(name.name) is not None
