"""Plans that were built, kept in a folder: what one process compiled, the next only loads.

    <folder>/<key>/        one plan of one graph with one set of weights on one machine
        built.json         written last; without it the folder is not used
        site/              what the engines left there

A folder is filled under another name and renamed when it is whole, so that a kill leaves nothing that is half done,
and processes may build at once: the first to rename wins.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

from jumar import __version__
from jumar.base.files import new_folder
from jumar.base.findings import Json
from jumar.base.host import usable_cores
from jumar.base.native import instructions
from jumar.tune.engines import Engine, GraphFunction, Site
from jumar.tune.graph import Graph
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import Machine
from jumar.tune.model.notes import tell
from jumar.tune.model.process import OwnFolder
from jumar.tune.model.task import digest
from jumar.tune.plan import Plan
from jumar.tune.plan.engines import ENGINES
from jumar.tune.plan.plan import absences

MANIFEST = "built.json"
SITE = "site"
GREATEST_BYTES = 16 << 30
"""All kept plans together; those not used for longest go first."""
_ABANDONED_S = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A graph whose plan is to be had as a function."""

    graph: Graph
    plan: Plan
    weights: Mapping[int, torch.Tensor]
    example: Sequence[torch.Tensor]
    machine: Machine

    @property
    def key(self) -> str:
        """What the built plan holds for: graph, plan, machine with its instructions, and the values of the weights."""
        parts: list[Json] = [self.graph.key, self.plan.to_json(), self.machine.key, fingerprint(self.weights)]
        return digest([*parts, __version__, *instructions()])[:40]

    def site(self, folder: Path) -> Site:
        """Return the place where engines work."""
        return Site(
            graph=self.graph, constants=self.weights, example=self.example, folder=folder,
            num_threads=self.machine.num_threads,
        )  # fmt: skip


def function_of(request: Request, folder: Path, engines: Sequence[Engine] | None = None) -> GraphFunction:
    """Return the plan as a function: loaded where it was built before, else built and kept in `folder`.

    Raises TuneError when an engine is not here as the plan wants it; what an engine raises is passed on.
    """
    why = unusable(request.plan, request.machine, engines)
    if why:
        raise TuneError(why)
    place = folder / request.key
    if (place / MANIFEST).is_file():
        try:
            return _loaded(request, place, engines)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with what was kept, it can be built anew
            tell(f"the plan kept in {place} cannot be loaded ({type(error).__name__}: {error}); it is built anew")
            shutil.rmtree(place, ignore_errors=True)
    return _built(request, place, engines)


def unusable(plan: Plan, machine: Machine, engines: Sequence[Engine] | None = None) -> str:
    """Return why a plan cannot be used here: an engine that is missing or of another version; empty when it can."""
    if any(region.settings.get("reuse") for region in plan.regions):
        return "the plan uses the memory of its outputs again, which a compiled model must not; tune again."
    for one in absences(plan, ENGINES if engines is None else engines, machine):
        if one.here and one.needed:
            return f"the plan was made with {one.engine} {one.needed}, and {one.here} is here; tune again."
        if not one.here:
            return f"the plan needs the engine {one.engine}" + (
                f": {one.reason}" if one.reason else ", which this Jumar does not have; tune again."
            )
    return ""


def fingerprint(weights: Mapping[int, torch.Tensor]) -> str:
    """Return a digest of the weights' places, shapes, strides, dtypes and values."""
    with ThreadPoolExecutor(max_workers=min(4, usable_cores())) as pool:
        parts = list(pool.map(_fingerprint, (weights[place] for place in sorted(weights))))
    return digest([[place, part] for place, part in zip(sorted(weights), parts, strict=True)])


def _fingerprint(weight: torch.Tensor) -> str:
    described = f"{weight.dtype} {tuple(weight.shape)} {weight.stride()}"
    hashed = hashlib.blake2b(described.encode(), digest_size=20)
    plain = weight.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    hashed.update(plain.view(torch.uint8).numpy().data)
    return hashed.hexdigest()


def _loaded(request: Request, place: Path, engines: Sequence[Engine] | None) -> GraphFunction:
    from jumar.tune.plan.build import load

    function = load(request.plan, request.site(place / SITE), engines)
    now = time.time()
    os.utime(place, (now, now))
    return function


def _built(request: Request, place: Path, engines: Sequence[Engine] | None) -> GraphFunction:
    """Build in a folder of another name, give it its own, and load from there."""
    from jumar.tune.plan.build import build

    try:
        with ExitStack() as stack:
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                draft = stack.enter_context(new_folder(place))
            except OSError as error:
                tell(f"built plans cannot be kept in {place.parent}: {error.strerror}")
                return _for_this_process(request, engines)
            (draft / SITE).mkdir()
            build(request.plan, request.site(draft / SITE), engines)
            facts = {"graph": request.graph.key, "plan": request.plan.to_json(), "jumar": __version__}
            (draft / MANIFEST).write_text(json.dumps(facts), "utf-8")
    except OSError:  # another process was first
        if not (place / MANIFEST).is_file():
            raise
    function = _loaded(request, place, engines)
    trim(place.parent, keep=place)
    return function


def _for_this_process(request: Request, engines: Sequence[Engine] | None) -> GraphFunction:
    """Build in a temporary folder, which goes with the function."""
    from jumar.tune.plan.build import build

    folder = OwnFolder("jumar-plan-")
    try:
        function = build(request.plan, request.site(folder.path), engines)
    except BaseException:
        folder.remove()
        raise
    weakref.finalize(function, folder.remove)
    return function


def trim(folder: Path, *, keep: Path, greatest_bytes: int = GREATEST_BYTES) -> None:
    """Remove plans that have not been used for longest until the rest is small enough, and drafts that were left."""
    kept = 0
    for used, place in sorted(_folders(folder), reverse=True):
        if place.name.startswith("."):
            if time.time() - used > _ABANDONED_S:
                shutil.rmtree(place, ignore_errors=True)
            continue
        kept += _size_bytes(place)
        if kept > greatest_bytes and place != keep:
            shutil.rmtree(place, ignore_errors=True)


def _folders(folder: Path) -> Iterator[tuple[float, Path]]:
    """Yield the folders in a folder, each behind the time of its last use; another process may remove any meanwhile."""
    for place in folder.iterdir():
        with contextlib.suppress(OSError):
            if place.is_dir():
                yield place.stat().st_mtime, place


def _size_bytes(place: Path) -> int:
    """Return the size of the files in a folder; 0 where another process removes it meanwhile."""
    try:
        return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    except OSError:
        return 0
