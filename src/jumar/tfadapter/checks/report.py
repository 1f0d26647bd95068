"""`examine_options`: the options of scripts and folders, what is wrong with them, and what could not be told."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError, ScriptError
from jumar.base.findings import Finding
from jumar.base.outside.frameworks import framework_of_imports, imported_names
from jumar.tfadapter.checks import Given, check
from jumar.tfadapter.checks.agreement import Apart, apart, by_name, corrected
from jumar.tfadapter.checks.subject import is_told, text_of
from jumar.tfadapter.options import UNKNOWN, Setting, must_agree, options_of
from jumar.tfadapter.source import (
    CommandLine,
    ScriptOptions,
    is_command,
    read_commands,
    read_operators_file,
    read_script,
    read_shell,
    source_text,
)
from jumar.tfadapter.source.operators_file import OPTIONS
from jumar.tfadapter.source.reader import NOTEBOOK

_SKIPPED = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"})
SHELL = frozenset({".sh", ".bash", ".env"})
TEXT = frozenset({".txt", ".cmd", ".log", ""})
"""Files that are read for commands where they are named themselves."""


@dataclass(frozen=True)
class Agreement:
    """What two sides set of the options that must agree."""

    apart: Sequence[Apart]
    compared: Sequence[str]
    """Options that a side sets and both tell."""
    untold: Sequence[str]
    """Options that a side sets to what its source does not tell."""
    corrected: Sequence[str]
    """Commands as they must be written to agree: of the use where it has any, else of the tuning."""
    is_use: bool
    """Whether `corrected` are commands of the use."""


@dataclass(frozen=True)
class OptionReport:
    """What was read, and what was found."""

    paths: Sequence[Path]
    scripts: Sequence[ScriptOptions]
    findings: Sequence[Finding]
    unparsed: Sequence[str] = ()
    """One sentence for each file that could not be read."""
    soc: str | None = None
    agreement: Agreement | None = None
    """Where two sides were compared."""

    @property
    def settings(self) -> list[Setting]:
        """The settings of all files."""
        return [setting for script in self.scripts for setting in script.settings]

    @property
    def num_known(self) -> int:
        """Settings whose name is in the table."""
        return sum(one.name in options_of(one.style) for one in self.settings)

    @property
    def untold(self) -> list[Setting]:
        """Settings whose value the source does not tell."""
        return [one for one in self.settings if one.value is UNKNOWN and _has_values(one)]

    @property
    def num_by_default(self) -> int:
        """How many of `untold` are flags of the command line whose default is known, and was checked."""
        return sum(one.default is not UNKNOWN for one in self.untold)

    @property
    def unread(self) -> list[tuple[Path, int, str]]:
        """Places that set options whose names the source does not tell."""
        return [(script.path, line, what) for script in self.scripts for line, what in script.unread]

    def to_json(self) -> dict[str, Any]:
        """Return the settings and what was not told."""
        return {
            "paths": [str(path) for path in self.paths],
            "soc": self.soc,
            "num_files": len(self.scripts),
            "num_options": len(self.settings),
            "num_known": self.num_known,
            "num_values_untold": len(self.untold),
            "num_values_by_default": self.num_by_default,
            "options": [_setting(one) for one in self.settings],
            "unread": [{"path": str(path), "line": line, "what": what} for path, line, what in self.unread],
            "unparsed": list(self.unparsed),
            "agreement": _agreement_json(self.agreement),
        }


def examine_options(
    paths: Sequence[Path | str], *, training: Sequence[Path | str] = (), soc: str | None = None,
    environment: Mapping[str, str] | None = None, look_for_paths: bool = True,
) -> OptionReport:  # fmt: skip
    """Return what scripts and folders set, and what is wrong with it.

    With `training`, `paths` are the scripts that tune, and options that must be the same in both are compared. A text
    that is no path may be a command itself: `aoe --job_type=2 …`. Raises InputError for a path that is missing,
    ScriptError where a file that was named is no Python 3; of a folder such a file is told and left out.
    """
    scripts, unparsed = _read(paths, "tuning" if training else "command line")
    later, more = _read(training, "use")
    given = Given(
        settings=[one for script in scripts for one in script.settings],
        scripts=scripts, training_scripts=later, soc=soc, environment=environment or {}, paths=look_for_paths,
        training=[one for script in later for one in script.settings] if training else None,
    )  # fmt: skip
    findings = check(given)
    if training:
        findings += check(
            Given(
                settings=[one for script in later for one in script.settings],
                scripts=later,
                soc=soc,
                paths=look_for_paths,
            )
        )
    return OptionReport(
        paths=[Path(one) for one in (*paths, *training)],
        scripts=[*scripts, *later], findings=findings, unparsed=[*unparsed, *more], soc=soc,
        agreement=_agreement(given) if training else None,
    )  # fmt: skip


def commands_of(text: str) -> list[CommandLine]:
    """Return the calls of tuners in a file, or in a text that is one. Raises InputError, ScriptError."""
    path = Path(text)
    return (read_shell(path) if _exists(path) else _of_text(text, "command line")).commands


def is_tensorflow(path: Path) -> bool:
    """Tell whether a Python file or notebook imports TensorFlow or its adapter, and not PyTorch. Raises nothing."""
    try:
        tree = ast.parse(source_text(path))
    except (ScriptError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return framework_of_imports(list(imported_names(tree))) == "tensorflow"


def _read(paths: Sequence[Path | str], side: str) -> tuple[list[ScriptOptions], list[str]]:
    """Return what the files set, with the files of operators that they name, and a sentence for each unread one."""
    scripts: list[ScriptOptions] = []
    unparsed: list[str] = []
    for given in paths:
        path = Path(given)
        if not _exists(path):
            scripts.append(_of_text(str(given), side))
            continue
        for file in _files(path):
            try:
                is_shell = file.suffix in SHELL or (file == path and file.suffix in TEXT)
                found = read_shell(file) if is_shell else read_script(file)
            except ScriptError as error:
                if path.is_file():
                    raise
                unparsed.append(str(error))
                continue
            scripts.append(found)
    for file in _operators_files(scripts):
        try:
            scripts.append(read_operators_file(file))
        except ScriptError as error:
            unparsed.append(str(error))
    return scripts, unparsed


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a long command is no name of a file
        return False


def _of_text(text: str, side: str) -> ScriptOptions:
    """Return what a command sets. Raises InputError for a text that is none."""
    if not is_command(text):
        raise InputError(f"{text} must be a script or a folder; there is none. Check the path.")
    found = read_commands(text, Path(f"({side})"), bare=True)
    if not found.commands:
        raise InputError(f'the command "{text[:60]}" has a quotation mark that is not closed; close it.')
    return found


def _agreement(given: Given) -> Agreement:
    found = list(apart(given))
    sides = [by_name(given.settings), by_name(given.training or ())]
    told = {
        name: all(is_told(one.value) for side in sides for one in side.get(name, ())) for side in sides for name in side
    }
    ordered = [name for name in must_agree() if name in told] + sorted(set(told) - set(must_agree()))
    use = [command for script in given.training_scripts for command in script.commands]
    tuning = [command for script in given.scripts for command in script.commands]
    return Agreement(
        apart=found,
        compared=[name for name in ordered if told[name]],
        untold=[name for name in ordered if not told[name]],
        corrected=corrected(found, use or tuning, is_use=bool(use)),
        is_use=bool(use),
    )


def _agreement_json(agreement: Agreement | None) -> dict[str, Any] | None:
    if agreement is None:
        return None
    return {
        "apart": [
            {"option": one.name, "changes": one.changes, "certain": one.is_certain,
             "tuning": [text_of(setting.value) for setting in one.tuning],
             "training": [text_of(setting.value) for setting in one.training]}
            for one in agreement.apart
        ],
        "compared": list(agreement.compared),
        "untold": list(agreement.untold),
        "corrected": list(agreement.corrected),
    }  # fmt: skip


def _operators_files(scripts: Sequence[ScriptOptions]) -> list[Path]:
    """Return the files that `aoe_config_file` names and that are there, each once."""
    named = [Path(text_of(one.value)) for script in scripts for one in script.settings if one.name in OPTIONS
             and isinstance(one.value, (str, bytes))]  # fmt: skip
    return [file for file in dict.fromkeys(named) if file.is_file()]


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for file in sorted(path.rglob("*")):
        parts = file.relative_to(path).parts[:-1]
        if (
            file.suffix in {".py", NOTEBOOK, *SHELL}
            and file.is_file()
            and not any(part in _SKIPPED or part.startswith(".") for part in parts)
        ):
            yield file


def _has_values(one: Setting) -> bool:
    """Tell whether an option has values that could be checked: it is known, and no object."""
    option = options_of(one.style).get(one.name)
    return option is not None and option.kind != "o"


def _setting(one: Setting) -> dict[str, Any]:
    value = one.value.decode("utf-8", "replace") if isinstance(one.value, bytes) else one.value
    return {
        "style": one.style, "name": one.name, "kind": one.kind, "told": value is not UNKNOWN,
        "value": None if value is UNKNOWN else value, "text": one.text, "path": str(one.path) if one.path else None,
        "line": one.line,
    }  # fmt: skip
