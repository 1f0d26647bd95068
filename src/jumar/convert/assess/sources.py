"""Assesses a source tree: every PyTorch API it uses, and whether the chosen NPU has it."""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

from jumar.base.errors import InputError, ScriptError
from jumar.base.findings import Finding, Location
from jumar.base.outside.frameworks import TITLES, Framework, imported_names, names_torch, other_framework
from jumar.base.text import listing
from jumar.convert.assess.model import Assessment, Row
from jumar.convert.assess.rules import OF_SOURCE, findings
from jumar.convert.assess.rules.unreadable_source import RULE as UNREADABLE
from jumar.convert.assess.subject import Assessed
from jumar.convert.assess.triton_kernels import Kernel, triton_kernels
from jumar.convert.rules.residue.other_release import RefusedCall, refused_calls
from jumar.convert.syntax.source import Source, SourceError, parse
from jumar.soc import DEFAULT_SOC
from jumar.soc.support import ApiSupport, SupportTables, chosen
from jumar.soc.support.data import tensor_methods

ROOTS = ("torch.", "torch_npu.")

SKIPPED_FOLDERS = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"})
"""Folders that hold no source of the project; names that begin with a dot are skipped too."""

SPECIAL_METHODS = frozenset({"cuda", "is_cuda", "double", "cdouble", "cfloat", "bfloat16"})
"""Not a tensor's alone, but what they ask of the device is the same on a module."""


@dataclass(frozen=True, slots=True)
class _Usage:
    name: str
    where: Location


def assess_source(
    files: str | Path | Iterable[str | Path],
    soc: str = DEFAULT_SOC,
    torch_version: str | None = None,
    *,
    root: Path | None = None,
) -> Assessment:
    """Assess a script, every `*.py` of a folder, or the given files, with paths from `root`, else from their folder.

    Raises InputError when a path is missing or holds no Python file, ScriptError (file, line, column)
    when a file that was named does not parse, and DeviceError for an unknown SoC or version. A file of
    a folder that does not parse becomes a finding, and the others are assessed.
    """
    release = chosen(torch_version)
    tables = SupportTables.load(soc, release.name)
    given = [Path(files)] if isinstance(files, (str, Path)) else [Path(file) for file in files]
    if not given:
        raise InputError("an assessment needs at least one file; got none: name a script or a folder.")
    root = _root(given) if root is None else root
    usages: list[_Usage] = []
    kernels: list[Kernel] = []
    refused: list[RefusedCall] = []
    others: list[Finding] = []
    num_read = 0
    has_torch = False
    foreign: dict[Framework, list[str]] = {}
    for path, is_named in _expand(given):
        shown = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
        try:
            source = parse(path.read_bytes(), shown)
        except SourceError as error:
            if is_named:
                raise ScriptError(_does_not_parse(path, error)) from error
            others.append(UNREADABLE.finding(_does_not_parse(Path(shown), error), where=_error_place(shown, error)))
            continue
        except OSError as error:
            raise InputError(f"{path} must be readable; got {error.strerror}: check its permissions.") from error
        names = list(imported_names(ast.parse(source.text.text)))
        framework = other_framework(names)
        if framework is not None:
            foreign.setdefault(framework, []).append(shown)
            continue
        num_read += 1
        has_torch = has_torch or names_torch(names)
        usages += _usages(source)
        kernels += triton_kernels(source)
        refused += refused_calls(source, release.name)
        from jumar.convert.assess.own_kernels import own_kernels

        others += own_kernels(source, release.name)
    if foreign and not (has_torch or usages):
        raise ScriptError(_only_foreign(foreign))
    rows = _rows(usages, tables)
    nothing = {"changed_call": not refused, "triton_kernel_limit": not kernels}
    rules = [rule for rule in OF_SOURCE if not nothing.get(rule)]
    return Assessment(
        subject=str(given[0]) if len(given) == 1 else str(root),
        kind="source",
        soc=tables.soc.name,
        torch_version=tables.torch_version,
        release_origin=release.origin,
        rows=rows,
        findings=_in_order([*findings(rules, Assessed(rows, tables, kernels, refused)), *others]),
        notes=(*_notes(num_read, tables), *map(_left_out, foreign.items())),
    )


def _only_foreign(foreign: Mapping[Framework, Sequence[str]]) -> str:
    framework, files = max(foreign.items(), key=lambda pair: len(pair[1]))
    title, what = TITLES[framework], "is a program" if len(files) == 1 else "are programs"
    return (
        f"{listing(files, 3)} {what} of {title}, and `jumar assess` is for PyTorch. `jumar run` takes "
        f"{'it' if len(files) == 1 else 'them'}; see docs/guide-{framework}.md."
    )


def _left_out(found: tuple[Framework, Sequence[str]]) -> str:
    framework, files = found
    return f"Not assessed, because they are of {TITLES[framework]}: {listing(files, 6)}."


def _in_order(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings, the most severe first."""
    return tuple(sorted(found, key=lambda finding: -finding.severity))


def _root(given: Sequence[Path]) -> Path:
    """Return the folder that locations are relative to: the one that holds everything that was given."""
    folders = [path if path.is_dir() else path.parent for path in given]
    try:
        return Path(os.path.commonpath(folders))
    except ValueError:  # absolute and relative paths mixed, or several drives: shown as they were given
        return folders[0]


def _expand(given: Sequence[Path]) -> Iterable[tuple[Path, bool]]:
    """Yield the files with whether each was named itself (and not found in a folder)."""
    for path in given:
        if path.is_dir():
            found = [file for file in sorted(path.rglob("*.py")) if _is_source(file.relative_to(path))]
            if not found:
                raise InputError(
                    f"{path} must be a script, a folder with Python files, or a recording; it holds no *.py."
                )
            yield from ((file, False) for file in found)
        elif path.exists():
            yield path, True
        else:
            raise InputError(f"{path} must be a script, a folder or a recording; there is none: check the path.")


def _is_source(relative: Path) -> bool:
    return not any(part.startswith(".") or part in SKIPPED_FOLDERS for part in relative.parts[:-1])


def _does_not_parse(path: Path, error: SourceError) -> str:
    place = f", line {error.line}, column {error.column}" if error.line is not None else ""
    return f"{path}{place}: the file must be valid Python 3; {error.message}: correct it and run again."


def _error_place(shown: str, error: SourceError) -> Location:
    return Location(path=shown, line=error.line, column=error.column)


def _usages(source: Source) -> list[_Usage]:
    """Return every use of a torch API in one file, tensor methods included when the file uses torch at all."""
    found = []
    uses_torch = False
    for use in source.uses():
        if use.kind == "method" or not f"{use.name}.".startswith(ROOTS):
            continue
        uses_torch = True
        if use.kind != "import" and use.name.startswith(ROOTS):
            found.append(_Usage(use.name, Location(path=source.path, line=use.line, column=use.column)))
    return found + _method_usages(source) if uses_torch else found


def _method_usages(source: Source) -> list[_Usage]:
    """Return the calls of methods that only a tensor has: `y.masked_fill(...)`, not `self.relu(...)`."""
    found = []
    for node in source.methods:
        name = node.attr.value
        is_own = isinstance(node.value, cst.Name) and node.value.value in ("self", "cls")
        is_call = source.called(node) is not None
        if is_own or not (is_call or name == "is_cuda"):
            continue
        if name in SPECIAL_METHODS or name in tensor_methods():
            found.append(_Usage(f"torch.Tensor.{name}", source.location(node.attr)))
    return found


def _rows(usages: Sequence[_Usage], tables: SupportTables) -> tuple[Row, ...]:
    places: dict[str, list[Location]] = defaultdict(list)
    for usage in usages:
        places[usage.name].append(usage.where)
    return tuple(_row(name, found, tables.api(name)) for name, found in sorted(places.items()))


def _row(name: str, places: Sequence[Location], support: ApiSupport) -> Row:
    return Row(
        name=name,
        kind="api",
        status=support.status,
        num_uses=len(places),
        where=tuple(places),
        source=support.source,
        note=support.note,
        npu_name=support.npu_name,
        certain=support.certain,
    )


def _notes(num_read: int, tables: SupportTables) -> tuple[str, ...]:
    notes = [
        f"Read {num_read} file{'' if num_read == 1 else 's'} without running them: what a call does with its "
        "arguments, and calls through other libraries, only a recorded run shows."
    ]
    if tables.soc.family in ("A1", "inference"):
        notes.append(
            f"The vendor's list of APIs has no column for {tables.soc.name}: answers follow from the operators, and "
            "where none decides from the list's column A2, which makes them likely and not certain."
        )
    return tuple(notes)
