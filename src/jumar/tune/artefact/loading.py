"""Loading artefacts: checked, without tuning or compiling.

What is in an artefact besides data is machine code that its engines compiled. Code is only run from members whose
checksums the manifest names, but the manifest comes with the file: load artefacts from people you would run a
program from.

A frozen model is loaded and computed without autocast, on the CPU and in float32, whatever its caller has set. Engines
make memory by PyTorch's functions: on another default device they would be handed addresses of that device. What
computes in the default dtype (`x / 2` of integers) was frozen under float32.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from jumar.base.errors import JumarError, UsageError
from jumar.base.native import instructions
from jumar.base.outside.archives import UnsafeArchiveError, write_member
from jumar.base.process.collector import collector_at_rest
from jumar.tune.artefact.manifest import GRAPH, MANIFEST, SITE, WEIGHTS, ArtefactError, Manifest
from jumar.tune.artefact.members import Members, Weights
from jumar.tune.engines.base import Engine, GraphFunction, Site
from jumar.tune.engines.shared.cut import has_overlaps, root_of
from jumar.tune.graph import Graph
from jumar.tune.graph.operators import function_of
from jumar.tune.graph.reading.reading import first_in
from jumar.tune.model.machine import this_machine
from jumar.tune.model.notes import say
from jumar.tune.model.process import OwnFolder, variable
from jumar.tune.model.task import TensorSpec, contiguous_stride

_is_any_autocast_enabled = torch._C._is_any_autocast_enabled  # half as long in each call as to ask for one device
_num_function_modes = torch._C._len_torch_function_stack  # a default device is such a mode


def are_usual() -> bool:
    """Tell whether there is neither autocast nor a default device, nor anything else that shows as one."""
    return not (_is_any_autocast_enabled() or _num_function_modes())


@contextmanager
def usual(*, dtype: bool) -> Iterator[None]:
    """Compute without autocast and on the CPU while this is entered, and with `dtype` in float32 by default.

    PyTorch has one default dtype for all threads.
    """
    with ExitStack() as stack:
        if torch.is_autocast_enabled("cpu"):
            stack.enter_context(torch.autocast("cpu", enabled=False))
        if _num_function_modes():
            stack.enter_context(torch.device("cpu"))
        default = torch.get_default_dtype()
        if dtype and default is not torch.float32:
            stack.callback(torch.set_default_dtype, default)
            torch.set_default_dtype(torch.float32)
        yield


class Loaded:
    """A model as it was frozen: call it with the arguments of the model, of the sizes it was frozen for.

    A model that writes to its buffers (counters, caches) does so here: they are in `state`, with the values they had
    when it was frozen, and `reset` puts those back. Calls of such a model must not overlap.
    """

    def __init__(
        self, manifest: Manifest, graph: Graph, function: GraphFunction, state: Mapping[int, torch.Tensor],
        *, is_tuned: bool,
    ) -> None:  # fmt: skip
        self.manifest = manifest
        self.graph = graph
        self.is_tuned = is_tuned
        """False when it runs operator by operator, because it was made for another machine."""
        self.state = {manifest.state[place]: tensor for place, tensor in state.items()}
        """The buffers that calls write to, by their names in the model."""
        self._function = _with_own_results(graph, function)
        self._first = {name: tensor.clone() for name, tensor in self.state.items()}
        variables = [place for place in graph.variables if place not in state]
        self._take, self._give = _nesting(manifest, variables)
        self._specs = [
            (torch.Size(spec.shape), getattr(torch, spec.dtype), tuple(spec.stride), _distinct(spec))
            for spec in (graph.inputs[place] for place in variables)
        ]
        self._written = _written(graph, variables)
        self._has_default_dtype = first_in(graph, torch.float32) is not None
        self._kept = [(number, state[place]) for number, place in enumerate(graph.variables) if place in state]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the model's result. Raises UsageError for arguments of another number, size or dtype.

        It is computed in the dtypes and on the device that the model was frozen with, also under autocast, on another
        default device and in another default dtype.
        """
        if are_usual() and not (self._has_default_dtype and torch.get_default_dtype() is not torch.float32):
            return self._computed(args, kwargs)
        with usual(dtype=self._has_default_dtype):
            return self._computed(args, kwargs)

    def _computed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given, flat = self._take(args, kwargs)
        tensors = list(given)
        for number, (tensor, (shape, dtype, stride, distinct)) in enumerate(zip(tensors, self._specs, strict=True)):
            is_known = isinstance(tensor, torch.Tensor) and tensor.shape == shape and tensor.dtype == dtype
            if not is_known or not tensor.is_cpu:
                raise UsageError(
                    f"input {number} must be {dtype} {tuple(shape)}, as the model was frozen; got {_told(tensor)}. "
                    "Freeze it for this size, too."
                )
            if tensor.stride() != stride:
                tensors[number] = torch.empty_strided(shape, distinct, dtype=dtype).copy_(tensor)
        for number, tensor in self._kept:
            tensors.insert(number, tensor)
        with torch.no_grad():
            result = self._give(self._function(*tensors), flat)
            for number, place in self._written:
                if given[number] is not tensors[place]:
                    given[number].copy_(tensors[place])
        return result

    def reset(self) -> None:
        """Give the state the values that it was frozen with."""
        for name, tensor in self.state.items():
            tensor.copy_(self._first[name])

    def __repr__(self) -> str:
        """`<model.jumar resnet50: openvino>`."""
        return f"<jumar artefact {self.manifest.name}: {self.manifest.plan if self.is_tuned else 'eager'}>"


def _written(graph: Graph, variables: Sequence[int]) -> list[tuple[int, int]]:
    """Return which arguments a call writes to: their number among the given ones, and among all variable inputs."""
    places = {next(graph.nodes[value - len(graph.inputs)].references()) for value in graph.effects}
    return [(number, graph.variables.index(place)) for number, place in enumerate(variables) if place in places]


def _distinct(spec: TensorSpec) -> tuple[int, ...]:
    """Return the strides in which a copy is made: elements that shared memory in the sample must not in another."""
    return contiguous_stride(spec.shape) if has_overlaps(spec.shape, spec.stride) else tuple(spec.stride)


def _with_own_results(graph: Graph, function: GraphFunction) -> GraphFunction:
    """Return the function with outputs that the caller may write to: weights that it returns, or views of them, copied.

    What a model makes anew in each call is a weight of its graph where no argument decides it.
    """
    weights = set(graph.constants)
    outputs = [(number, value) for number, value in enumerate(graph.outputs) if value is not None]
    held = {number for number, value in outputs if root_of(graph, value) in weights}
    if not held:
        return function

    def call(*tensors: torch.Tensor) -> tuple[Any, ...]:
        outputs = function(*tensors)
        return tuple(output.clone() if number in held else output for number, output in enumerate(outputs))

    return call


def _told(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)}" + ("" if value.is_cpu else f" on {value.device}")
    is_plain = value is None or isinstance(value, (bool, int, float, str))
    return repr(value) if is_plain else f"a value of type {type(value).__module__}.{type(value).__qualname__}"


@collector_at_rest()
@torch.inference_mode(False)  # memory that calls write to is made here, and they may be made outside of it
def load(path: str | Path, *, fallback: bool = False, engines: Sequence[Engine] | None = None) -> Loaded:
    """Return the model in the artefact at `path`, ready to be called; nothing is tuned or compiled.

    Raises ArtefactError in one sentence for a file that is missing, cut short, damaged or of another schema, and for
    one that was made for another machine, PyTorch or engine version; with `fallback` the latter kind runs operator
    by operator instead, and says so. What is read is checked; weights are read where the engine has no form of its
    own of them.

    An artefact holds machine code: load only what you would run as a program.
    """
    with _damage_told(Path(path)), usual(dtype=True), _Opened(Path(path)) as opened:
        manifest = opened.manifest
        graph = opened.graph()
        reason = (
            manifest.misfit(this_machine(manifest.machine.device, with_compiler=False))
            or manifest.lacking(instructions())
            or _stale(manifest, engines)
        )
        if not reason:
            return _tuned(opened, graph, engines, Path(path))
        if not fallback:
            raise ArtefactError(
                f"{path}: {reason}. Freeze it again here, or load it with fallback=True to run untuned."
            )
        say(f"{path} runs untuned: {reason}.")
        weights = dict(opened.weights())
    return Loaded(manifest, graph, function_of(graph, weights), _state(manifest, weights), is_tuned=False)


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    """Raise ArtefactError for whatever a value of another kind in a manifest or a graph causes where it is used."""
    try:
        yield
    except JumarError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
        raise ArtefactError(f"{path} is damaged or no artefact ({why}). Copy it, or freeze it, again.") from error


def read_manifest(path: Path) -> Manifest:
    """Return what an artefact says of itself. Raises ArtefactError as `load` does."""
    with _Opened(path) as opened:
        return opened.manifest


def _tuned(opened: _Opened, graph: Graph, engines: Sequence[Engine] | None, path: Path) -> Loaded:
    from jumar.tune.plan.build import load as load_plan

    manifest = opened.manifest
    folder = OwnFolder("jumar-artefact-")
    try:
        opened.unpack_site(folder.path)
        site = Site(
            graph=graph, constants=opened.weights(), example=(), folder=folder.path,
            num_threads=manifest.machine.num_threads,
        )  # fmt: skip
        with variable("TMPDIR", str(folder.path)):  # PyTorch unpacks its packages there, and a kill would leave them
            function = load_plan(manifest.plan, site, engines)
        state = _state(manifest, site.constants)
    except BaseException as error:
        folder.remove()
        if isinstance(error, ArtefactError) or not isinstance(error, Exception):
            raise
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
        raise ArtefactError(f"{path} cannot be loaded by its engine ({why}). Freeze it again.") from error
    loaded = Loaded(manifest, graph, function, state, is_tuned=True)
    if os.name == "nt":  # pragma: no cover - Windows removes no file that is mapped
        weakref.finalize(loaded, folder.remove)
    else:  # what is mapped stays; a process that is killed later leaves nothing
        folder.remove()
    return loaded


def _state(manifest: Manifest, weights: Mapping[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    return {place: weights[place] for place in manifest.state}


def _stale(manifest: Manifest, engines: Sequence[Engine] | None) -> str:
    from jumar.tune.plan.built import unusable

    return unusable(manifest.plan, manifest.machine, engines).rstrip(".")


def _nesting(
    manifest: Manifest, variables: Sequence[int]
) -> tuple[Callable[[Any, Any], tuple[Sequence[Any], Sequence[Any]]], Callable[[tuple[Any, ...], Sequence[Any]], Any]]:
    """Return what takes a call's arguments apart, and what nests results (and arguments) as the model did."""
    if manifest.in_nesting is None:
        return lambda args, _kwargs: (args, args), lambda outputs, _arguments: outputs
    from torch.utils import _pytree as pytree

    from jumar.tune.graph.reading.nesting import Nesting

    taken, given = Nesting(manifest.in_nesting), Nesting(manifest.out_nesting)
    places = {place: number for number, place in enumerate(manifest.places) if place is not None}
    numbers = [places[place] for place in variables]
    places_of = enumerate(manifest.places)
    same = [(number, places[place]) for number, place in places_of if place is not None and places[place] != number]

    def take(args: Any, kwargs: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        if kwargs:
            kwargs = _in_order(kwargs, taken.spec)
        flat, spec = pytree.tree_flatten((args, kwargs))
        if not taken.fits(spec):
            raise UsageError(
                f"the arguments must be those the model was frozen with; got {len(flat)} values where "
                f"{taken.spec.num_leaves} are taken, or other names or nesting."
            )
        for number, value in taken.fixed:
            if isinstance(flat[number], torch.Tensor) or flat[number] != value:
                raise UsageError(
                    f"argument {number} must be {value!r}, as the model was frozen; got {_told(flat[number])}. "
                    "Freeze it for this value, too."
                )
        for number, other in same:
            if flat[number] is not flat[other]:
                raise UsageError(
                    f"arguments {number} and {other} must be one tensor, as when the model was frozen; got two. "
                    "Freeze it with an example for each."
                )
        return [flat[number] for number in numbers], flat

    return take, given.filled


def _in_order(kwargs: dict[str, Any], spec: Any) -> dict[str, Any]:
    """Return arguments by name in the order in which they were given when the model was frozen."""
    from torch.export._tree_utils import reorder_kwargs

    try:
        return reorder_kwargs(kwargs, spec)
    except ValueError as error:
        raise UsageError(
            f"the arguments given by name must be those the model was frozen with ({error}); the others go by place."
        ) from error


class _Opened:
    """An artefact that is open for reading. Every member is checked as it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._members = Members(path)
        except FileNotFoundError as error:
            raise ArtefactError(f"{path} must be an artefact; there is no such file. Check the name.") from error
        except Exception as error:  # a damaged file may make the readers of zip files and JSON raise anything
            raise self._broken(f"{type(error).__name__}: {error}") from error
        try:
            self.manifest = self._manifest()
        except BaseException:
            self._members.close()
            raise

    def _manifest(self) -> Manifest:
        try:
            manifest = Manifest.from_json(json.loads(bytes(self._members.read(MANIFEST)[0])))
        except ArtefactError as error:
            raise ArtefactError(f"{self._path}: {error}") from error
        except Exception as error:  # as above
            raise self._broken(f"{type(error).__name__}: {error}") from error
        names = self._members.names
        if sorted(names) != sorted([MANIFEST, *manifest.checksums]):
            raise self._broken("its members are not those that its manifest names")
        return manifest

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._members.close()

    def graph(self) -> Graph:
        """Return the graph."""
        try:
            graph = Graph.from_json(json.loads(bytes(self._checked(GRAPH))))
        except (KeyError, TypeError, ValueError) as error:
            raise self._broken(f"{GRAPH}: {type(error).__name__}: {error}") from error
        if graph.key != self.manifest.key:
            raise self._broken("its graph is another than its manifest says")
        return graph

    def weights(self) -> Mapping[int, torch.Tensor]:
        """Return the weights by place. They are read when they are first asked for, which must be before the end."""
        return Weights(self.manifest.weights, lambda: self._checked(WEIGHTS))

    def unpack_site(self, folder: Path) -> None:
        """Write the engines' files to `folder`, each compared with its checksum. Raises ArtefactError, OSError."""
        try:
            for name, target in self._members.targets(folder, SITE).items():
                write_member(target, self._checked(name))
        except UnsafeArchiveError as error:
            raise self._broken(str(error)) from error

    def _checked(self, name: str) -> memoryview:
        try:
            content, found = self._members.read(name)
        except Exception as error:  # as above
            raise self._broken(f"{name}: {type(error).__name__}: {error}") from error
        if found != self.manifest.checksums[name]:
            raise self._broken(f"{name} is not what its checksum says")
        return content

    def _broken(self, why: str) -> ArtefactError:
        return ArtefactError(
            f"{self._path} is damaged, cut short or no artefact ({why}). Copy it, or freeze it, again."
        )
