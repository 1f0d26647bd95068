"""Reads the file of names that differ between two programs.

One rename a line, the reference's name first (what follows `#` is a comment):

    blocks.* -> layers.*                module paths and all below; `*` is one component, `**` any number
    . -> network                        the root: the target has all in a module `network`
    /h\\.(\\d+)\\.attn/ -> layers.\\1.attention   a regular expression for the whole path, matched at its start
    operator aten::gelu -> npu::fast_gelu
    parameter gamma -> weight           names within a module; other frameworks' are known (`frameworks`)

or the same as TOML, tables `modules`, `operators` and `parameters` with `"reference" = "target"`.

Names of frameworks are known without a file (`operators.layers`): `CLASSES` and `PARAMETERS` of all of them, which
are asked for every call.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from jumar.base.errors import UsageError
from jumar.operators.layers import PARAMETERS, PARAMETERS_OF

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


EPSILON_FORM = "form of eps"
"""Under this name the settings of an optimizer say where it adds eps, see `frameworks.form`; PyTorch's have no such
name."""


def torch_parameter(module_type: str, name: str) -> str:
    """Return PyTorch's name of a parameter of a module of a class."""
    return PARAMETERS_OF.get(module_type, PARAMETERS).get(name, PARAMETERS.get(name, name))


KINDS = ("module", "operator", "parameter")
_ARROW = re.compile(r"\s+->\s+|\s*→\s*")


@dataclass(frozen=True, slots=True)
class Rename:
    """One rename: a pattern of the reference's names, and the target's name for what it matches."""

    reference: str
    target: str
    pattern: re.Pattern[str]
    """Matches the start of a reference's path, up to the end of a component."""
    template: str
    """The target's path for what matched, in the form of `re.Match.expand`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renames:
    """All renames of a comparison."""

    modules: tuple[Rename, ...] = ()
    operators: tuple[tuple[str, str], ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()

    def module(self, path: str) -> str:
        """Return the path that the target uses for the reference's `path`; the first rename that fits counts."""
        for rename in self.modules:
            if rename.reference == ".":
                return ".".join(filter(None, (rename.target, path)))
            match = rename.pattern.match(path)
            if match is not None:
                rest = path[match.end() :]
                renamed = "" if rename.target == "." else match.expand(rename.template)
                return (renamed + rest).strip(".")
        return path

    def operator(self, name: str) -> str:
        """Return the reference's name for the target's operator `name`, with or without an overload."""
        base = name.split(".", 1)[0]
        for reference, target in self.operators:
            if fnmatchcase(name, target) or fnmatchcase(base, target):
                return reference
        return name

    def parameter(self, name: str) -> str:
        """Return the reference's name for the target's parameter `name`."""
        return next((reference for reference, target in self.parameters if fnmatchcase(name, target)), name)


def read_renames(path: str | Path) -> Renames:
    """Return the renames of a file (see the module's text for the forms). Raises UsageError naming file and line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read ({error}). Give a text file of renames, `old -> new` a line."
        ) from error
    return parse_renames(text, str(path))


def parse_renames(text: str, source: str = "renames") -> Renames:
    """Return the renames that `text` holds; `source` is named in errors. Raises UsageError."""
    if re.search(r"^\s*\[", text, re.MULTILINE):
        return _from_toml(text, source)
    found: dict[str, list[tuple[str, str, str]]] = {kind: [] for kind in KINDS}
    for number, line in enumerate(text.splitlines(), 1):
        content = re.sub(r"(^|\s)#.*$", "", line).strip()
        if content:
            where = f"{source}, line {number}"
            kind, reference, target = _parsed(content, where)
            found[kind].append((reference, target, where))
    return _built(found)


def _parsed(content: str, where: str) -> tuple[str, str, str]:
    sides = _ARROW.split(content)
    if len(sides) != 2 or not all(sides):
        raise UsageError(f"{where}: a rename reads `old -> new`; got {content!r}. Write the reference's name first.")
    word, _, rest = sides[0].partition(" ")
    kind = word if word in KINDS and rest else "module"
    reference = rest.strip() if kind == word else sides[0]
    if " " in reference and not reference.startswith("/"):
        raise UsageError(f"{where}: {word!r} is no kind of name; use one of {', '.join(KINDS)}, or none for modules.")
    return kind, reference, sides[1]


def _from_toml(text: str, source: str) -> Renames:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is not valid TOML: {error}. Correct it, or write `old -> new` lines.") from error
    found: dict[str, list[tuple[str, str, str]]] = {kind: [] for kind in KINDS}
    for table, names in tables.items():
        kind = table.removesuffix("s")
        if kind not in KINDS or not isinstance(names, Mapping):
            known = ", ".join(f"[{kind}s]" for kind in KINDS)
            raise UsageError(f"{source}: {table!r} is no table of renames; use {known}.")
        for reference, target in names.items():
            where = f"{source}, [{table}] {reference}"
            if not isinstance(target, str):
                raise UsageError(f"{where}: a name is text; got {target!r}. Put it in quotes.")
            found[kind].append((reference, target, where))
    return _built(found)


def _built(found: Mapping[str, Iterable[tuple[str, str, str]]]) -> Renames:
    return Renames(
        modules=tuple(_rename(*entry) for entry in found["module"]),
        operators=tuple((reference, target) for reference, target, _ in found["operator"]),
        parameters=tuple((reference, target) for reference, target, _ in found["parameter"]),
    )


def _rename(reference: str, target: str, where: str) -> Rename:
    if len(reference) > 1 and reference.startswith("/") and reference.endswith("/"):
        expression, template = reference[1:-1], target
    else:
        if re.findall(r"\*+", reference) != re.findall(r"\*+", target):
            raise UsageError(f"{where}: both names need the same wildcards; got {reference!r} and {target!r}.")
        expression = "".join(_expression(part) for part in re.split(r"(\*+)", reference))
        numbers = iter(range(1, 100))
        template = re.sub(r"\*+", lambda _: f"\\g<{next(numbers)}>", target)
    try:
        pattern = re.compile(f"(?:{expression})(?=\\.|$)")
        _check_groups(pattern, template)
    except (re.error, IndexError) as error:
        raise UsageError(f"{where}: {reference!r} -> {target!r} is no valid pattern: {error}. Correct it.") from error
    return Rename(reference, target, pattern, template)


def _expression(part: str) -> str:
    return {"*": r"([^.]+)", "**": r"(.+)"}.get(part) or re.escape(part)


def _check_groups(pattern: re.Pattern[str], template: str) -> None:
    """Raise re.error when the template names a group that the pattern lacks."""
    for number in re.findall(r"\\g?<?(\d+)>?", template):
        if int(number) > pattern.groups:
            raise re.error(f"the pattern has {pattern.groups} groups, the name on the right uses group {number}")


def rename_lines(renames: Iterable[tuple[str, str]]) -> str:
    """Return the file for module renames (reference, target); the root is `.`."""
    return "\n".join(f"{reference or '.'} -> {target or '.'}" for reference, target in renames)
