"""Collecting graphs for tuning: each with its weights and one set of real inputs, in a folder.

    <folder>/<key>.json    the graph, its name and phase
    <folder>/<key>.pt      weights and inputs, by place (`jumar.tune.graph.capture.data`)

A graph that is there already is not written again: that removes duplicates, also between processes. The data file
is written first and both by renaming, so that what has a description is whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch

from jumar.base.errors import InputError, JumarError, OutputError
from jumar.base.files import write_text
from jumar.tune.graph import Graph
from jumar.tune.graph.capture.captured import Captured
from jumar.tune.model.notes import say

ENVIRONMENT = "JUMAR_TUNE_COLLECT"
"""The folder to collect into; unset: nothing is collected."""
NOT_TUNED = "not-tuned.jsonl"
Phase = Literal["inference", "training"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a graph was met."""

    name: str
    """For people: `forward (net.py:12)`, with `, training step` behind it for one."""
    phase: Phase
    keeps_layout: str = ""
    """Of a training step: why its module must not be computed in another layout; empty: it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A graph from a folder."""

    graph: Graph
    data: Path
    origin: Origin

    def captured(self, script: str) -> Captured:
        """Return it as graph tuning takes it; `script` is where it comes from."""
        origin = self.origin
        return Captured(
            graph=self.graph, data=self.data, name=origin.name, origin=script, keeps_layout=origin.keeps_layout
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """Writes into one folder. Never raises into the program that is collected from: what fails is said."""

    folder: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Collector | None:
        """Return what the environment asks for, or None."""
        folder = environ.get(ENVIRONMENT)
        return cls(folder=Path(folder)) if folder else None

    def has(self, graph: Graph) -> bool:
        """Tell whether a graph is there."""
        return (self.folder / f"{graph.key}.json").is_file()

    def write(self, graph: Graph, values: Mapping[int, torch.Tensor], origin: Origin) -> None:
        """Write a graph with its values, unless it is there."""
        if self.has(graph):
            return
        from jumar.tune.graph.capture import data

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            data.save(self.folder / f"{graph.key}.pt", values)
            described = {"graph": graph.to_json(), "origin": asdict(origin)}
            _write(self.folder / f"{graph.key}.json", json.dumps(described))
        except (OSError, JumarError) as error:
            say(f"a graph cannot be kept for tuning: {error}")

    def leave_out(self, name: str, reason: str) -> None:
        """Note a graph that is not tuned."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / NOT_TUNED).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"name": name, "reason": reason}) + "\n")
        except OSError as error:
            say(f"a graph cannot be kept for tuning: {error}")


def read_collected(folder: Path) -> list[Collected]:
    """Return the graphs of a folder, the greatest first. Raises InputError when one cannot be read."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            described = json.loads(path.read_text("utf-8"))
            graph, origin = Graph.from_json(described["graph"]), Origin(**described["origin"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{path} holds no graph of Jumar's ({error}). Collect again.") from error
        data = path.with_suffix(".pt")
        if not data.is_file():
            raise InputError(f"{data} is missing beside {path.name}. Collect again.")
        found.append(Collected(graph=graph, data=data, origin=origin))
    return sorted(found, key=lambda one: (-len(one.graph.nodes), one.graph.key))


def read_not_tuned(folder: Path) -> list[tuple[str, str]]:
    """Return the names of the graphs that are not tuned, each once with its reason."""
    try:
        lines = (folder / NOT_TUNED).read_text("utf-8").splitlines()
    except OSError:
        return []
    pairs = [(one["name"], one["reason"]) for one in map(json.loads, lines)]
    return list(dict.fromkeys(pairs))


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}. Make room, or name another folder.") from error
