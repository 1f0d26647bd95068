"""`Group`: the parts of one kind that other installed distributions offer by their entry points.

`GROUPS` names the eight kinds. The room that uses a kind holds its `Group` and asks it for the parts after its own.
What is installed is looked up once a process, when a room first asks. A part that cannot be used is left out, and one
sentence in the log `jumar.plugins` names its distribution; Python shows that sentence on stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "engine": "jumar.tuning_engines",
        "rule": "jumar.rules",
        "dump-format": "jumar.dump_formats",
        "soc-profile": "jumar.soc_profiles",
        "npu-operator": "jumar.npu_operators",
        "doctor-check": "jumar.doctor_checks",
        "doctor-entries": "jumar.doctor_entries",
        "export-format": "jumar.export_formats",
    }
)
"""Kind of part to its entry-point group."""

LOG = "jumar.plugins"
_held: list[str] = []
"""Groups that hold parts of a test."""


@dataclass(frozen=True, slots=True)
class _Loaded(Generic[T]):
    """A part that was loaded, with the names that must be its own."""

    entry: EntryPoint
    part: T
    names: tuple[str, ...]


class Group(Generic[T]):
    """The parts of one kind. They are loaded when they are first asked for, in the order of their entry points' names.

    `accept` returns what an entry point named as a part. It raises TypeError or ValueError, with the rest of the
    sentence, for what is none. `names` returns the names that must be a part's own. `taken` returns those of the
    parts that are there already; a part that has one of them is refused. So are two parts that share a name.
    """

    def __init__(
        self,
        kind: str,
        accept: Callable[[Any], T],
        names: Callable[[T], Iterable[str]],
        taken: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.entry_points = GROUPS[kind]
        self._accept, self._names, self._taken = accept, names, taken
        self._parts: tuple[T, ...] | None = None

    def parts(self) -> tuple[T, ...]:
        """Return the parts that can be used."""
        if self._parts is None:
            self._parts = ()  # a part that asks for parts while it is loaded gets none
            self._parts = tuple(self._of_own_name(list(self._loaded())))
        return self._parts

    @contextmanager
    def holding(self, *parts: T) -> Iterator[None]:
        """Have these parts, and no installed ones, within the block. For tests of parts that are not installed."""
        before = self._parts
        self._parts = parts
        _held.append(self.entry_points)
        try:
            yield
        finally:
            self._parts = before
            _held.remove(self.entry_points)

    def forget(self) -> None:
        """Look the parts up again when they are next asked for. For tests."""
        self._parts = None
        installed.cache_clear()

    def _loaded(self) -> Iterator[_Loaded[T]]:
        for entry in installed().get(self.entry_points, ()):
            try:
                part = self._accept(entry.load())
                yield _Loaded(entry, part, tuple(self._names(part)))
            except Exception as error:  # noqa: BLE001 - the module of a part may raise anything when it is imported
                _refuse(entry, f"{type(error).__name__}: {error}".split("\n")[0])

    def _of_own_name(self, found: Sequence[_Loaded[T]]) -> Iterator[T]:
        taken = frozenset(self._taken()) if found else frozenset()
        for one in found:
            jumars = [name for name in one.names if name in taken]
            shared = [(other, name) for other in found if other is not one for name in one.names if name in other.names]
            if jumars:
                _refuse(one.entry, f"Jumar has a part of the name {jumars[0]}")
            elif shared:
                other, name = shared[0]
                _refuse(one.entry, f"{_distribution(other.entry)} has a part of the name {name}, too")
            else:
                yield one.part


def is_offered(kind: str) -> bool:
    """Tell whether any distribution offers a part of this kind, without loading it."""
    return GROUPS[kind] in _held or GROUPS[kind] in installed()


def instance_of(kind: type[T]) -> Callable[[Any], T]:
    """Return an `accept` for parts that are instances of `kind`."""

    def accept(value: Any) -> T:
        if not isinstance(value, kind):
            raise TypeError(f"it names a {type(value).__name__} and must name a {kind.__name__}")
        return value

    return accept


@cache
def installed() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the entry points of Jumar's groups by group. This is the one question to the installed distributions."""
    from importlib.metadata import entry_points

    known = entry_points()
    found = {group: known.select(group=group) for group in GROUPS.values()}
    return {group: tuple(sorted(set(entries), key=_order)) for group, entries in found.items() if entries}


def _order(entry: EntryPoint) -> tuple[str, str]:
    return entry.name, _distribution(entry)


def _distribution(entry: EntryPoint) -> str:
    """Return the name and version of the distribution that has the entry point."""
    return "an unnamed distribution" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _refuse(entry: EntryPoint, reason: str) -> None:
    import logging

    who = _distribution(entry)
    logging.getLogger(LOG).warning(
        f'jumar: {who} offers "{entry.name}" as {entry.group}, which cannot be used ({reason.rstrip(".")}). '
        f"Mend or uninstall {who.split()[0] if entry.dist else 'it'}."
    )
