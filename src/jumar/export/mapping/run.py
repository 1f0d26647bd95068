"""`map_names`: propose a map or take an edited one, write the target's weights, run both models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from jumar.base.files import check_output, write_result
from jumar.export.mapping.apply import apply_map, check_map
from jumar.export.mapping.entries import GUESSED, MATCHED
from jumar.export.mapping.file import Map, read_map
from jumar.export.mapping.form.units import is_counter
from jumar.export.mapping.propose import Proposal, propose
from jumar.export.mapping.sides.side import Side
from jumar.export.mapping.verify import Verification, verify


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOptions:
    """What is done with a map."""

    output: Path | None = None
    """The map file to write."""
    edited: Path | None = None
    """A map file to take instead of a new proposal."""
    write: Path | None = None
    """The file for the target's weights with the source's values; its suffix names the format."""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MapReport:
    """What a map holds, and what running it found."""

    source: str
    target: str
    num_targets: int
    """Tensors of the target, without counters of batches."""
    num_matched: int
    num_guessed: int
    guesses: Mapping[str, str]
    """Targets that are guessed, and why that is all."""
    missing: Mapping[str, tuple[str, ...]]
    """Targets without a source, each with the nearest free sources."""
    unused: Mapping[str, tuple[str, ...]]
    """Sources without a target, each with the nearest free targets."""
    map_file: Path | None
    """The file that was written, or the edited one that was taken."""
    is_edited: bool
    written: Path | None
    num_converted: int
    """Tensors that were given the target's dtype."""
    verification: Verification

    @property
    def num_left(self) -> int:
        """The number of the target's tensors without a source."""
        return len(self.missing)


def map_names(source: str, target: str, options: MapOptions | None = None) -> MapReport:
    """Map the names of `target` to those of `source`: checkpoints, or factories `module:callable` of models.

    Raises InputError for sides and maps that cannot be used, OutputError for files that must not be written.
    """
    options = options or MapOptions()
    for path in (options.output, options.write):
        if path is not None:
            check_output(path, options.force)
    first, second = side_of(source), side_of(target)
    if options.edited is None:
        proposal = propose(first, second)
        mapping = proposal.map
    else:
        mapping = read_map(options.edited)
        check_map(mapping, first, second)
        proposal = _as_edited(mapping, first, second)
    applied = apply_map(mapping, first, second)
    verification = verify(first, second, applied.state)
    if verification.differences and proposal.missing:
        reason = f"; {len(proposal.missing)} tensors had the target's own values"
        verification = replace(verification, remark=reason.removeprefix("; "))
    if options.output is not None:
        write_result(options.output, proposal.text, options.force)
    if options.write is not None:
        _write(options.write, applied.state, options.force)
    return MapReport(
        source=source,
        target=target,
        num_targets=proposal.num_targets,
        num_matched=proposal.num(MATCHED),
        num_guessed=proposal.num(GUESSED),
        guesses={
            one.target: one.why for one in proposal.entries if one.status == GUESSED and not is_counter(one.target)
        },
        missing=proposal.missing,
        unused=proposal.unused,
        map_file=options.output or options.edited,
        is_edited=options.edited is not None,
        written=options.write,
        num_converted=applied.num_converted,
        verification=verification,
    )


def side_of(text: str) -> Side:
    """Return a side from what the user wrote: a file or folder that exists, else `module:callable`."""
    path = Path(text)
    if ":" in text and not path.exists():
        from jumar.export.mapping.sides.factory import of_factory

        return of_factory(text)
    from jumar.export.mapping.sides.checkpoint import of_checkpoint

    return of_checkpoint(path)


def _as_edited(mapping: Map, source: Side, target: Side) -> Proposal:
    """Return an edited map in the form of a proposal."""
    done = {entry.target for entry in mapping.entries}
    used = {name for entry in mapping.entries for name in entry.sources} | set(mapping.dropped)
    return Proposal(
        entries=mapping.entries,
        missing={name: () for name in target.tensors if name not in done and not is_counter(name)},
        unused={name: () for name in source.tensors if name not in used and not is_counter(name)},
        shapes={name: info.shape for name, info in target.tensors.items()},
        by_values=False,
    )


def _write(path: Path, state: Mapping[str, object], force: bool) -> None:
    import torch

    from jumar.export.formats.weights import write_weights
    from jumar.export.tensors import TensorInfo

    reads: dict[int, object] = {}
    tensors = []
    for name, value in state.items():
        assert isinstance(value, torch.Tensor)
        read = reads.setdefault(id(value), lambda value=value: value)  # tied names share one callable
        tensors.append((name, TensorInfo(tuple(value.shape), value.dtype), read))
    write_weights(path, tensors, force=force)  # type: ignore[arg-type]
