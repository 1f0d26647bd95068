"""The command lines of two runs: which options differ, and which of them can change numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jumar.accuracy.canonical import names
from jumar.recording import RunInfo

PLACES = names(
    "output output-dir out logdir log-dir save save-dir checkpoint-dir ckpt-dir data data-dir data-path root device "
    "device-id gpu local-rank port master-port num-workers workers print-freq log-interval name run-name"
)
"""Options that say where things are, not what is calculated."""


def argument_settings(info: RunInfo) -> dict[str, Any]:
    """Return the script's options by `argument --name`, with their values; positional ones by their number.

    The script itself is left out: a converted script has another name.
    """
    return {f"argument {name}": value for name, value in _options(info.command[1:]) if not _is_place(name)}


def _is_place(name: str) -> bool:
    return name.lstrip("-").replace("_", "-").lower() in PLACES


def _options(arguments: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield (name, value); an option without a value is True, one given several times counts as the last."""
    name, position = "", 0
    for argument in arguments:
        is_option = argument.startswith("-") and not _is_number(argument)
        if name and is_option:
            yield name, True
            name = ""
        if is_option and "=" in argument:
            before, _, value = argument.partition("=")
            yield before, value
        elif is_option:
            name = argument
        elif name:
            yield name, argument
            name = ""
        else:
            position += 1
            yield str(position), argument
    if name:
        yield name, True


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def version_settings(info: RunInfo) -> dict[str, Any]:
    """Return versions of the framework, its libraries and Python."""
    libraries = info.environment.get("libraries")
    found = {"torch_version": info.torch_version, "torch_npu_version": info.torch_npu_version}
    found |= {f"{name}_version": version for name, version in libraries.items()} if isinstance(libraries, dict) else {}
    if python := info.environment.get("python"):
        found["python_version"] = python
    return found
