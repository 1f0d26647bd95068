"""Compares the settings and command lines of two runs, and says which differences can change numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jumar.base.findings import Severity
from jumar.recording import RunInfo

DECISIVE = (
    "seed",
    "dtype",
    "autocast",
    "deterministic",
    "tf32",
    "hf32",
    "matmul_precision",
    "batch_size",
    "batch-size",
    "world_size",
    "learning",
    "--lr",
    "dropout",
    "decay",
    "precision",
    "epsilon",
    "--amp",
    "--bf16",
    "--fp16",
    "accum",
)
"""Words in the name of a setting that can change the numbers that a run computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDiff:
    """A setting that differs; None where a run does not have it."""

    name: str
    reference: Any
    target: Any
    severity: Severity

    def __str__(self) -> str:
        return f"{self.name} {self.reference!r} against {self.target!r}"


def setting_differences(reference: RunInfo, target: RunInfo) -> list[SettingDiff]:
    """Return what differs in how two recordings were made, decisive settings first."""
    of_reference, of_target = dict(_flat("", reference.settings)), dict(_flat("", target.settings))
    for settings, info in ((of_reference, reference), (of_target, target)):
        settings.update({"num_ranks": info.num_ranks, **argument_settings(info), **version_settings(info)})
    found = [
        SettingDiff(name=name, reference=of_reference.get(name), target=of_target.get(name), severity=_severity(name))
        for name in sorted({*of_reference, *of_target})
        if not _equal(of_reference.get(name), of_target.get(name))
    ]
    return sorted(found, key=lambda diff: -diff.severity)


def _flat(prefix: str, settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value


def _severity(name: str) -> Severity:
    lower = name.lower()
    return Severity.WARNING if any(word in lower for word in DECISIVE) or name == "num_ranks" else Severity.INFO


def _equal(first: Any, second: Any) -> bool:
    """Compare values; on a command line `1e-3` equals `0.001`."""
    try:
        return first == second or float(first) == float(second)
    except (TypeError, ValueError):
        return False


PLACES = frozenset(
    [
        "output",
        "output-dir",
        "out",
        "logdir",
        "log-dir",
        "save",
        "save-dir",
        "checkpoint-dir",
        "ckpt-dir",
        "data",
        "data-dir",
        "data-path",
        "root",
        "device",
        "device-id",
        "gpu",
        "local-rank",
        "port",
        "master-port",
        "num-workers",
        "workers",
        "print-freq",
        "log-interval",
        "name",
        "run-name",
    ]
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
