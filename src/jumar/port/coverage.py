"""`Coverage`: how much of a recorded run was computed on its device, and what of it fell back to the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jumar.recording import Recording
from jumar.recording.schema import CallRow, TensorRow

Call = tuple[str, str, str]
"""(phase, module path, operator): what names a call alike on both sides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What a recording says of where its run computed."""

    num_calls: int
    """Operator calls of the recorded steps, all ranks."""
    num_on_device: int
    """Those that read or wrote a tensor on the device."""
    model_on_device: bool
    """Of a run that trains: a trained parameter or a backward operator was on the device; else a module or operator."""
    trains: bool = False
    """An optimizer changed parameters."""
    num_updates: int
    """Steps of optimizers."""
    on_device: Counter[Call] = field(default_factory=Counter)
    on_host: Counter[Call] = field(default_factory=Counter)
    devices: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """By rank: the devices that operators wrote tensors on, the host's left out."""
    places: dict[Call, str] = field(default_factory=dict)
    """Source line of the first such call on the host."""

    @property
    def used_device(self) -> bool:
        """Whether the model was computed on the device."""
        return self.num_on_device > 0 and self.model_on_device


def coverage_of(recording: Recording, device: str) -> Coverage:
    """Return where the run computed; `device` is `npu` or `cuda`. One step is held in memory at a time."""
    on_device: Counter[Call] = Counter()
    on_host: Counter[Call] = Counter()
    places: dict[Call, str] = {}
    modules: list[bool] = []
    trained: list[bool] = []
    num_updates = 0
    devices: dict[int, set[str]] = {rank: set() for rank in recording.ranks}
    for rank in recording.ranks:
        for row in recording.iter_rows(rank):
            is_on = _is_on(device, (*row.inputs, *row.outputs))
            if row.kind == "op":
                devices[rank].update(tensor.device for tensor in row.outputs if _is_on(device, [tensor]))
                _count(row, is_on, on_device, on_host, places)
            elif row.inputs or row.outputs:
                if row.kind == "module":
                    modules.append(is_on)
                elif row.kind == "parameter":
                    trained.append(is_on)
            num_updates += row.kind == "optimizer"
    return Coverage(
        num_calls=on_device.total() + on_host.total(),
        num_on_device=on_device.total(),
        model_on_device=_has_model(on_device, modules, trained),
        trains=bool(trained),
        num_updates=num_updates,
        devices={rank: frozenset(found) for rank, found in devices.items()},
        on_device=on_device,
        on_host=on_host,
        places=places,
    )


def fallen_back(reference: Coverage, target: Coverage) -> list[tuple[Call, int, str]]:
    """Return the calls that ran on the reference's device and on the target's host: how many, and the first's line."""
    found = []
    for call, number in target.on_host.items():
        moved = min(number - reference.on_host[call], reference.on_device[call] - target.on_device[call])
        if moved > 0:
            found.append((call, moved, target.places.get(call, "")))
    return found


def _has_model(on_device: Counter[Call], modules: Sequence[bool], trained: Sequence[bool]) -> bool:
    """Tell whether what the run is about was on the device: its training, else its modules, else any operator.

    A script may train on the CPU and only evaluate on the device. Parameters may stay on the host where their
    gradients are computed on the device.
    """
    if trained:
        return any(trained) or any(phase == "backward" for phase, _, _ in on_device)
    return any(modules) if modules else bool(on_device)


def _is_on(device: str, tensors: Iterable[TensorRow]) -> bool:
    return any(tensor.device.partition(":")[0] == device for tensor in tensors)


def _count(
    row: CallRow, is_on: bool, on_device: Counter[Call], on_host: Counter[Call], places: dict[Call, str]
) -> None:
    call = (row.phase, row.module_path, row.name)
    if is_on:
        on_device[call] += 1
        return
    on_host[call] += 1
    places.setdefault(call, row.source)
