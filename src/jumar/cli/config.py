"""`Config`: defaults of options from `jumar.toml`, or from `[tool.jumar]` in `pyproject.toml`.

The nearest folder upwards that has one counts; beside each other, `jumar.toml` does. A key is an option that several
commands share (`soc`), or a table with the options of one command (`[tune]`, `[bank.list]`). What is given on the
command line, or by an environment variable of the same meaning, counts more.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from jumar.base.errors import InputError
from jumar.base.text.language.choice import LANGUAGES, Language

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SHARED = {
    "soc": "the NPU's system on a chip, for every command that has --soc",
    "torch-version": "release of PyTorch and torch_npu, for every command that has --torch-version",
    "fail-on": "what makes the exit code 1: advice, warning, error or never",
    "knowledge-bank": "its folder or URL, for every command that has --bank",
    "language": "language of messages: en or zh",
}
"""Keys of the top level, and what they set."""
_OPTION = {"knowledge-bank": "bank"}
"""Shared keys that are called otherwise than their option: `bank` is the table of a command."""
OUTRANKED_BY = {"bank": ("TUNE_BANK_PATH", "ASCEND_CACHE_PATH"), "job-type": ("AOE_MODE",)}
"""Options that these environment variables set: they count more than a file."""
NAMES = ("jumar.toml", "pyproject.toml")


@dataclass(frozen=True, slots=True)
class Config:
    """What a file sets."""

    path: Path | None = None
    """None where there is no file."""
    values: Mapping[str, Any] = field(default_factory=dict)

    def place(self, words: Sequence[str], key: str) -> str:
        """Return where a key stands, for messages: `jumar.toml, [tune] time-budget`."""
        own = ["tool", "jumar"] if self.path is not None and self.path.name == "pyproject.toml" else []
        table = ".".join([*own, *words])
        return f"{self.path}, [{table}] {key}" if table else f"{self.path}, {key}"

    @property
    def language(self) -> Language | None:
        """The language that the file asks for. Raises InputError for one that Jumar does not speak."""
        asked = self.values.get("language")
        named = next((one for one in LANGUAGES if one == asked), None)
        if asked is not None and named is None:
            raise InputError(f"{self.place((), 'language')} must be en or zh; it is {asked!r}. Change it.")
        return named


def read_config(folder: Path | None = None) -> Config:
    """Return what the nearest file sets, from `folder` upwards (the current one). Raises InputError for one that is
    damaged.
    """
    start = (folder or Path.cwd()).absolute()
    for place in (start, *start.parents):
        for name in NAMES:
            values = _values(place / name)
            if values is not None:
                return Config(place / name, values)
    return Config()


def _values(path: Path) -> Mapping[str, Any] | None:
    """Return the values of a file; None where it is not there or does not speak of Jumar."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if path.name == "pyproject.toml" and "tool.jumar" not in text:
        return None
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} must be TOML ({error}). Mend it, or leave it out.") from error
    found = document.get("tool", {}).get("jumar") if path.name == "pyproject.toml" else document
    if found is not None and not isinstance(found, dict):
        raise InputError(f"{path}, [tool] jumar must be a table; it is {found!r}. Write [tool.jumar].")
    return found


def check_top(config: Config, commands: Sequence[str]) -> None:
    """Raise InputError for a key of the top level that is neither a shared option nor a command."""
    for key, value in config.values.items():
        if isinstance(value, dict):
            _check_known(config, (), key, commands, "a command")
        else:
            _check_known(config, (), key, [*SHARED], "a shared option")


def defaults(config: Config, words: Sequence[str], command: click.Command) -> dict[str, Any]:
    """Return, by parameter, the defaults that a file sets for the command of these words (`("bank", "list")`).

    Raises InputError for an option that the command does not have, and for a value that it does not take.
    """
    options = options_of(command)
    shared = {_OPTION.get(key, key): value for key, value in config.values.items() if key in SHARED}
    given: dict[str, tuple[tuple[str, ...], Any]] = {
        key: ((), value) for key, value in shared.items() if key in options
    }
    for key, value in _table(config, words).items():
        if isinstance(command, click.Group) and isinstance(value, dict):
            continue
        _check_known(config, words, key, [*options], "an option")
        given[key] = (tuple(words), value)
    return {
        str(options[key].name): _checked(config, where, key, value, options[key])
        for key, (where, value) in given.items()
        if not any(os.environ.get(name) for name in OUTRANKED_BY.get(key, ()))
    }


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return the options that a file can set, by their key: the long name without dashes."""
    found = {}
    for one in command.params:
        if isinstance(one, click.Option) and one.expose_value:
            for name in one.opts:
                if name.startswith("--"):
                    found[name[2:]] = one
    return found


def shared_key(option: str) -> str:
    """Return the key of the top level that sets an option."""
    return next((key for key, name in _OPTION.items() if name == option), option)


def _table(config: Config, words: Sequence[str]) -> Mapping[str, Any]:
    found: Any = config.values
    for at, word in enumerate(words):
        found = found.get(word, {})
        if not isinstance(found, dict):
            raise InputError(f"{config.place(words[:at], word)} must be a table of options; it is {found!r}.")
    return found  # type: ignore[no-any-return]


def _check_known(config: Config, words: Sequence[str], key: str, known: Sequence[str], what: str) -> None:
    if key in known:
        return
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(sorted(known))}."
    raise InputError(f"{config.place(words, key)} is not {what} that Jumar has. {hint}")


def _checked(config: Config, words: Sequence[str], key: str, value: Any, option: click.Option) -> Any:
    """Return a value as the option takes it from a file. Raises InputError for one that it does not take."""
    several = option.multiple or option.nargs != 1
    if several and not isinstance(value, list):
        value = [value]
    if option.is_flag and not isinstance(value, bool):
        raise InputError(f"{config.place(words, key)} must be true or false; it is {value!r}.")
    if isinstance(value, (dict, list)) and not several:
        raise InputError(f"{config.place(words, key)} must be one value; it is {value!r}.")
    try:
        option.type_cast_value(click.Context(click.Command("jumar")), value)
    except click.BadParameter as error:
        raise InputError(f"{config.place(words, key)}: {error.message}") from error
    return value
