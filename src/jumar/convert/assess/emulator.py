"""Counts which names of torch_npu the emulated NPU has: `assess_emulator` asks the running emulator name by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jumar.device import emulate

if TYPE_CHECKING:
    from jumar.npu.api.alias.coverage import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A public name that resolves and raises NotImplementedError when it is used."""

    name: str
    nearest: str = ""
    """What to use in its place, where that is written down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCoverage:
    """The names of one group: `random`, `memory`."""

    group: str
    num_names: int
    refused: tuple[Refused, ...] = field(default=())

    @property
    def num_working(self) -> int:
        """Names that are emulated."""
        return self.num_names - len(self.refused)

    @property
    def percent(self) -> float:
        """Part of the names that is emulated, in percent."""
        return 100.0 * self.num_working / self.num_names


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorCoverage:
    """Every public name of torch_npu, and beside them every custom operator."""

    torch_npu_version: str
    """What the emulator answers as `torch_npu.__version__`."""
    api: tuple[GroupCoverage, ...]
    """The vendor's table of public names that Python reaches, by group, the largest group first."""
    custom: GroupCoverage
    """All operators of `torch.ops.npu`. The table names only some of them."""
    num_unreachable: Mapping[str, int]
    """Entries of the table that no Python code can reach, by group; they are in no other figure."""

    @property
    def total(self) -> GroupCoverage:
        """All groups of `api` in one."""
        refused = tuple(item for group in self.api for item in group.refused)
        return GroupCoverage(group="total", num_names=sum(group.num_names for group in self.api), refused=refused)


def assess_emulator() -> EmulatorCoverage:
    """Bring the emulated NPU up in this process and count what of torch_npu it has.

    Raises DeviceError when it cannot be had here.
    """
    with emulate() as active:
        from jumar.npu.api.alias import coverage

        entries = coverage.entries()
        groups = [_group(name, entries) for name in {entry.group for entry in entries}]
        custom = coverage.custom_operators()
        return EmulatorCoverage(
            torch_npu_version=active.torch_npu_version,
            api=tuple(sorted(groups, key=lambda group: (-group.num_names, group.group))),
            custom=_group(custom[0].group, custom),
            num_unreachable=coverage.unreachable(),
        )


def _group(name: str, entries: list[Entry]) -> GroupCoverage:
    own = [entry for entry in entries if entry.group == name]
    refused = tuple(Refused(name=entry.name, nearest=entry.nearest) for entry in own if not entry.works)
    return GroupCoverage(group=name, num_names=len(own), refused=refused)
