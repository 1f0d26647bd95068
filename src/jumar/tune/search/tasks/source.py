"""What a tuning run starts from: a recording, the descriptions that `torch.npu.set_aoe` left, or a model's graphs.

For job 2 the operators of a model's graphs are its tasks; the model is not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import InputError
from jumar.recording import Recording
from jumar.recording.documents import is_recording
from jumar.tune.graph.graph import GETITEM
from jumar.tune.search.subgraph.cuts import work_of
from jumar.tune.search.tasks.extract import (
    Extraction,
    LeftOut,
    Selection,
    TaskUse,
    classify,
    extract,
    name_tasks,
    select,
)

if TYPE_CHECKING:
    from jumar.tune.graph.capture.captured import Captured


def extract_graphs(graphs: Sequence[Captured]) -> Extraction:
    """Return the tasks of all nodes of the graphs, those with the most work first; a weight stays a weight."""
    from jumar.tune.graph.operators import task_of_node

    uses: dict[str, TaskUse] = {}
    left_out: LeftOut = {}
    work: dict[str, float] = {}
    num_calls = 0
    for captured in graphs:
        graph = captured.graph
        for value, node in enumerate(graph.nodes, len(graph.inputs)):
            if node.operator == GETITEM:
                continue
            num_calls += 1
            group = classify(node.operator, lambda graph=graph, node=node: task_of_node(graph, node), uses, left_out)  # type: ignore[misc]
            group.num_calls += 1
            if isinstance(group, TaskUse):
                group.module_paths = group.module_paths or [captured.name]
                group.phases = ["forward"]
                work[group.task.key] = work.get(group.task.key, 0.0) + work_of(graph, value)
    tasks = sorted(uses.values(), key=lambda use: (-work[use.task.key], use.task.key))
    name_tasks(tasks)
    return Extraction(
        tasks=tasks, not_tuned=sorted(left_out.values(), key=lambda one: -one.num_calls), num_calls=num_calls
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The operators to tune and where they come from."""

    path: str
    device: str
    """Where they ran: `cpu`, `npu (emulated)`, `Ascend910A`."""
    extraction: Extraction
    graphs: Sequence[Captured] = ()
    """Of a model; a recording has none."""
    is_offline: bool = False
    """Whether it is a model, not what a program did."""


def model_source(
    where: str, *, folder: Path, input_shape: str = "", selection: Selection | None = None, limit_s: float | None = None
) -> Source:
    """Return the graphs, and the operators, of a model: an `.onnx` or `.pt2` file, or `module:callable`.

    The model runs in a process of its own, for at most `limit_s` (None: as long as it takes). The graphs' weights are
    written to `folder`. Raises JumarError as `captured_apart` does.
    """
    from jumar.tune.graph.capture.apart import captured_apart

    graphs = captured_apart(where, folder=folder, input_shape=input_shape, limit_s=limit_s)
    return graphs_source(where, graphs, selection=selection)


def graphs_source(
    where: str, graphs: Sequence[Captured], *, selection: Selection | None = None, is_offline: bool = True
) -> Source:
    """Return captured graphs, and their operators, as a source. Raises InputError when nothing is meant."""
    extraction = extract_graphs([one for one in graphs if not one.reason_not_tuned])
    if selection is not None:
        extraction = select(extraction, selection)
    return Source(path=where, device="cpu", extraction=extraction, graphs=tuple(graphs), is_offline=is_offline)


def open_source(
    source: Recording | str | Path, *, rank: int | None = None, selection: Selection | None = None
) -> Source:
    """Return the operators of a recording (of one rank, the lowest when None) or of a folder of descriptions.

    Raises InputError or RecordingError in one sentence when it is neither, or has no operator that was asked for.
    """
    found = _opened(source, rank)
    return found if selection is None else replace(found, extraction=select(found.extraction, selection))


def _opened(source: Recording | str | Path, rank: int | None) -> Source:
    folder = Path(source) if isinstance(source, str | Path) else None
    if folder is not None and not folder.is_dir():
        what = "is a file that is none of them" if folder.exists() else "is not there"
        raise InputError(
            f"{folder} {what}. Name a model (.onnx, .pt2 of torch.export, module:callable), a script (.py), or the "
            "folder of a recording or of set_aoe's dumps."
        )
    if folder is not None and not is_recording(folder):
        from jumar.tune.search.tasks.descriptions import described_device, extract_descriptions, read_descriptions

        if described := read_descriptions(folder):
            device = described_device(described)
            return Source(path=str(folder), device=device, extraction=extract_descriptions(described))
    recording = source if isinstance(source, Recording) else Recording.open(source)
    if "op" not in recording.info.levels:
        raise InputError(f"{recording.path} has no rows of operators. Record again with --level module,op.")
    return Source(path=str(recording.path), device=recording.info.device, extraction=extract(recording, rank))
