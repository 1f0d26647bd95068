"""Lists by place what the runs do not have in common: inserted, removed, replaced, moved and repeated calls."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from jumar.comparison.align.matching import Matching
from jumar.comparison.align.regions import Region, components
from jumar.comparison.model.calls import Call, plain_path
from jumar.comparison.model.correspondence import StructuralDiff, StructureKind
from jumar.comparison.model.results import UnmatchedCall
from jumar.recording.schema import CallRow

MOST_CALLS = 20
"""Calls of one difference that are kept."""


def differences(
    matching: Matching,
    regions: Sequence[Region],
    repeated: Mapping[str, tuple[int, int]],
    explained: Mapping[int, str],
) -> list[StructuralDiff]:
    """Return the differences in the order of execution; equal ones at many places once, with their number.

    `repeated` holds the modules that the runs call another number of times (see `turns.repeated_modules`), `explained`
    the reasons for calls that are no difference, by `id` (see `explained.explanations`).
    """
    found: list[StructuralDiff] = [_replaced(matching, region) for region in regions]
    done = {side: {k for region in regions for k in region.members[side]} for side in (0, 1)}
    one_sided = _one_sided(matching)
    extra: dict[str, list[str]] = {}
    for side in (0, 1):
        modules: dict[str, list[int]] = {}
        for part in components(matching, side):
            left = sorted(part - done[side])
            for k in left:
                top = _top(matching.calls[side][k].place, {*repeated, *one_sided[side]})
                modules.setdefault(top, []).append(k) if top is not None else None
            rest = [k for k in left if _top(matching.calls[side][k].place, {*repeated, *one_sided[side]}) is None]
            if rest:
                found.append(_alone(matching, side, rest, explained))
        for top, members in modules.items():
            if top in repeated:
                extra.setdefault(top, []).extend(_reasons(matching.calls[side], members, explained))
            else:
                found.append(_modules(matching, side, top, members, explained))
    found.extend(_moved(matching))
    if matching.calls[0]:
        row = matching.calls[0][0].row
        found.extend(_repetition(row, place, counts, extra.get(place, [])) for place, counts in repeated.items())
    return _once(sorted(found, key=_position))


def _position(diff: StructuralDiff) -> tuple[int, int]:
    calls = diff.reference or diff.target
    return ("forward", "backward", "optimizer").index(diff.phase), calls[0].seq if calls else -1


def _once(found: Iterable[StructuralDiff]) -> list[StructuralDiff]:
    """Return equal differences (other layers, other parameters) once."""
    unique: dict[tuple[object, ...], StructuralDiff] = {}
    for diff in found:
        names = tuple(call.name for call in diff.reference), tuple(call.name for call in diff.target)
        key = (
            diff.kind,
            diff.phase,
            diff.explained,
            names,
            "" if any(names) and "modules" not in diff.kind else diff.module_path,
        )
        first = unique.get(key)
        unique[key] = replace(first, num_places=first.num_places + 1) if first else diff
    return list(unique.values())


def unmatched(call: Call, explained: str = "") -> UnmatchedCall:
    """Return the public form of a call that only one side has; `explained` says why it is no difference."""
    row = call.row
    return UnmatchedCall(
        step=row.step,
        rank=row.rank,
        phase=row.phase,
        module_path=call.path,
        name=row.name,
        seq=row.seq,
        source=row.source,
        layout_only=call.layout_only,
        explained=explained,
    )


def _listed(
    calls: Sequence[Call], members: Iterable[int], explained: Mapping[int, str] | None = None
) -> tuple[UnmatchedCall, ...]:
    reasons = explained or {}
    return tuple(unmatched(calls[k], reasons.get(id(calls[k]), "")) for k in sorted(members)[:MOST_CALLS])


def _reasons(calls: Sequence[Call], members: Iterable[int], explained: Mapping[int, str]) -> list[str]:
    return [explained.get(id(calls[k]), "") for k in sorted(members)]


def _common(reasons: Sequence[str]) -> str:
    """Return why none of some calls is a difference; empty when one of them is."""
    return ", ".join(dict.fromkeys(reasons)) if all(reasons) else ""


def _diff(kind: StructureKind, call: Call, **figures: object) -> StructuralDiff:
    row = call.row
    return StructuralDiff(
        kind=kind,
        step=row.step,
        rank=row.rank,
        phase=row.phase,
        **{"module_path": call.path, **figures},  # type: ignore[arg-type]  # the figures of one kind
    )


def _replaced(matching: Matching, region: Region) -> StructuralDiff:
    calls = matching.calls
    return _diff(
        "replaced",
        calls[0][region.exits[0].calls[0]],
        reference=_listed(calls[0], region.members[0]),
        target=_listed(calls[1], region.members[1]),
        compared=True,
    )


def _alone(matching: Matching, side: int, members: Sequence[int], explained: Mapping[int, str]) -> StructuralDiff:
    calls = matching.calls[side]
    listed = _listed(calls, members, explained)
    why = _common(_reasons(calls, members, explained))
    if side == 0:
        return _diff("removed", calls[members[0]], reference=listed, explained=why)
    return _diff("inserted", calls[members[0]], target=listed, explained=why)


def _modules(
    matching: Matching, side: int, top: str, members: Sequence[int], explained: Mapping[int, str]
) -> StructuralDiff:
    calls = matching.calls[side]
    first = calls[min(members)]
    depth = top.count(".") + 1
    path = ".".join(plain_path(first.row.module_path).split(".")[:depth])
    listed = _listed(calls, members, explained)
    why = _common(_reasons(calls, members, explained))
    if side == 0:
        return _diff("removed modules", first, module_path=path, reference=listed, explained=why)
    return _diff("inserted modules", first, module_path=path, target=listed, explained=why)


def _moved(matching: Matching) -> Iterator[StructuralDiff]:
    for i, j in matching.moved:
        first, second = matching.calls[0][i], matching.calls[1][j]
        if first.row.phase == "optimizer":
            continue  # an optimizer's calls are looked for by their numbers: these have others
        yield _diff("moved", first, reference=(unmatched(first),), target=(unmatched(second),), compared=True)


def _one_sided(matching: Matching) -> tuple[set[str], set[str]]:
    """Return for each side the modules, topmost only, of which the other side has no call."""
    prefixes = [{prefix for call in calls for prefix in _prefixes(call.place)} for calls in matching.calls]
    alone = [prefixes[side] - prefixes[1 - side] for side in (0, 1)]
    first, second = ({path for path in of if path.rpartition(".")[0] not in of} for of in alone)
    return first, second


def _prefixes(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition(".")[0]


def _top(path: str, tops: Container[str]) -> str | None:
    """Return which of `tops` a module is in; the root, "", holds all."""
    return next((prefix for prefix in _prefixes(path) if prefix in tops), "" if "" in tops else None)


def _repetition(row: CallRow, place: str, counts: tuple[int, int], reasons: Sequence[str]) -> StructuralDiff:
    return StructuralDiff(
        kind="repeated",
        step=row.step,
        rank=row.rank,
        phase="forward",
        module_path=place,
        num_reference=counts[0],
        num_target=counts[1],
        explained=_common(reasons),
    )
