"""`EngineContract`: what an engine of `jumar tune` promises."""

from __future__ import annotations

import json
import pickle
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from jumar.base.process import children
from jumar.testing.contracts import engine_models
from jumar.tune.engines.base import Engine, GraphFunction, Settings, Site
from jumar.tune.graph import Graph
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import Machine

ENVIRONMENT = children.environment()
MACHINE = Machine(device="cpu", model="a test", capability="NONE", num_threads=2, torch="2.13.0", compiler="g++")

LOADS = """
import pickle, shutil, subprocess, sys, torch
from pathlib import Path
from jumar.tune.engines.base import Site
def refuse(*arguments, **options):
    raise AssertionError(f"load started {arguments}")
subprocess.Popen = refuse
engine, works = pickle.load(sys.stdin.buffer)
class Closing(dict):
    is_closed = False
    def __getitem__(self, place):
        assert not self.is_closed, "weights are asked for after the function was loaded"
        return super().__getitem__(place)
for graph, constants, folder, settings, inputs in works:
    constants = Closing(constants)
    site = Site(graph=graph, constants=constants, example=(), folder=Path(folder))
    with torch.no_grad():
        run = engine.load(site, settings)
        constants.is_closed = True
        shutil.rmtree(folder)
        outputs = list(run(*inputs))
        Path(folder).mkdir()
        torch.save(outputs, Path(folder) / "outputs.pt")
"""


class EngineContract:
    """An `Engine`. Set `engine`, and `models` where it does not take all of them.

        class TestMyEngine(EngineContract):
            engine = acme.engine.MyEngine()

    The tests are skipped where the engine is unavailable.
    """

    engine: Engine
    models: tuple[str, ...] = ("convolutions", "attention", "borders")
    """Names of `engine_models.MODELS` that the engine takes. It takes or refuses the others."""
    tolerance = 2e-6
    """Of the greatest value."""

    @pytest.fixture(autouse=True)
    def _is_usable(self) -> None:
        if reason := self.engine.unavailable(MACHINE):
            pytest.skip(reason)

    def built(self, site: Site, settings: Settings) -> GraphFunction:
        """Return the function that the engine builds."""
        with torch.no_grad():
            return self.engine.build(site, settings)

    def sites(self, tmp_path: Path) -> list[tuple[Site, Settings, list[torch.Tensor]]]:
        """Return a place to build each model in with each of its settings, and other inputs."""
        found = []
        for name in self.models:
            graph, constants, example = engine_models.captured(name)
            for number, settings in enumerate(self.engine.settings(graph, replace(MACHINE, num_threads=1))):
                folder = tmp_path / f"{name}{number}"
                folder.mkdir()
                site = Site(graph=graph, constants=constants, example=example, folder=folder)
                found.append((site, settings, engine_models.other_inputs(example)))
        assert found
        return found

    def test_what_runs_in_the_tuner_imports_no_torch(self) -> None:
        """The tuner asks every engine; only a candidate's own process loads what computes."""
        graphs = [engine_models.captured(name)[0] for name in self.models]
        code = (
            "import pickle, sys\n"
            "engine, graphs, machine = pickle.load(sys.stdin.buffer)\n"
            "for graph in graphs:\n"
            "    engine.unsupported(graph), engine.settings(graph, machine), engine.version()\n"
            "engine.unavailable(machine)\n"
            "sys.exit(any(name in sys.modules for name in ('torch', 'onnxruntime', 'openvino', 'onnx', 'tvm')))"
        )
        data = pickle.dumps((self.engine, graphs, MACHINE))
        assert subprocess.run(children.command(code=code), input=data, check=False, env=ENVIRONMENT).returncode == 0

    def test_it_offers_the_same_settings_each_time_and_they_are_json(self) -> None:
        """Settings are part of a plan in the bank."""
        for name in self.models:
            graph = engine_models.captured(name)[0]
            assert self.engine.unsupported(graph) == ""
            offered = list(self.engine.settings(graph, MACHINE))
            assert offered
            assert offered == list(self.engine.settings(graph, MACHINE)) == json.loads(json.dumps(offered))

    def test_it_has_the_version_of_an_installed_package(self) -> None:
        """A plan holds for one version."""
        assert self.engine.version()[0].isdigit()

    def test_it_computes_what_pytorch_computes_on_changing_inputs(self, tmp_path: Path) -> None:
        """Values, shapes, dtypes and strides, under every setting; inputs stay as they are."""
        for site, settings, others in self.sites(tmp_path):
            run = self.built(site, settings)
            for inputs in (list(site.example), others):
                kept = [tensor.clone() for tensor in inputs]
                with torch.no_grad():
                    self.agree(run(*inputs), engine_models.plain(site.graph, site.constants, inputs), settings)
                assert all(map(torch.equal, kept, inputs))

    def test_outputs_of_earlier_calls_keep_their_values(self, tmp_path: Path) -> None:
        """The caller may keep them."""
        site, settings, others = self.sites(tmp_path)[0]
        run = self.built(site, settings)
        with torch.no_grad():
            first = run(*site.example)
            kept = [output.clone() for output in first]
            run(*others)
        assert all(map(torch.equal, kept, first))

    def test_calls_from_several_threads_at_once_keep_apart(self, tmp_path: Path) -> None:
        """A server calls the function so."""
        site, settings, others = self.sites(tmp_path)[0]
        run = self.built(site, settings)
        sets = [list(site.example), others, [tensor * 3 for tensor in site.example], [tensor * 5 for tensor in others]]
        expected = [engine_models.plain(site.graph, site.constants, inputs) for inputs in sets]

        def calls(number: int) -> list[Any]:
            with torch.no_grad():
                return [run(*sets[number]) for _ in range(50)]

        with ThreadPoolExecutor(len(sets)) as pool:
            for wanted, made in zip(expected, pool.map(calls, range(len(sets))), strict=True):
                for outputs in made:
                    self.agree(outputs, wanted, settings)

    def test_outputs_that_are_inputs_or_views_of_them_share_their_memory(self, tmp_path: Path) -> None:
        """As they do in PyTorch."""
        graph, constants, example = self.taken("borders")
        site = Site(graph=graph, constants=constants, example=example, folder=tmp_path)
        settings = self.engine.settings(graph, replace(MACHINE, num_threads=1))[0]
        with torch.no_grad():
            outputs = self.built(site, settings)(*example)
        assert outputs[0] is example[0]
        assert outputs[1].data_ptr() == example[0].data_ptr()

    def test_copies_that_are_outputs_are_in_memory_of_their_own(self, tmp_path: Path) -> None:
        """As they are in PyTorch."""
        graph, constants, example = self.taken("copies")
        site = Site(graph=graph, constants=constants, example=example, folder=tmp_path)
        settings = self.engine.settings(graph, replace(MACHINE, num_threads=1))[0]
        with torch.no_grad():
            outputs = self.built(site, settings)(*example)
            self.agree(outputs, engine_models.plain(graph, constants, example), settings)
        assert len({tensor.untyped_storage().data_ptr() for tensor in (*example, *outputs)}) == 5

    def test_another_process_loads_the_same_function_and_compiles_nothing(self, tmp_path: Path) -> None:
        """From what `build` left in the folder; weights are not read later."""
        works, expected = [], []
        for site, settings, others in self.sites(tmp_path):
            with torch.no_grad():
                expected.append(self.built(site, settings)(*others))
            works.append((site.graph, site.constants, str(site.folder), settings, others))
        command = children.command(code=LOADS)
        data = pickle.dumps((self.engine, works))
        done = subprocess.run(command, input=data, check=False, env=ENVIRONMENT, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        for (_, _, folder, settings, _), wanted in zip(works, expected, strict=True):
            self.agree(torch.load(Path(folder) / "outputs.pt"), wanted, settings)

    def test_it_leaves_the_process_as_it_was(self, tmp_path: Path) -> None:
        """Threads, cores, denormals, oneDNN and the environment's variables."""
        before = engine_models.process_state()
        for site, settings, _ in self.sites(tmp_path):
            run = self.built(site, settings)
            with torch.no_grad():
                run(*site.example)
        assert engine_models.process_state() == before

    def test_a_graph_that_it_does_not_take_is_refused_or_computed_right(self, tmp_path: Path) -> None:
        """By a sentence of `unsupported`, no settings, or a TuneError of `build`; never by wrong values."""
        for name in set(engine_models.MODELS) - set(self.models):
            graph, constants, example = engine_models.captured(name)
            for number, settings in enumerate(self.offered(graph)):
                folder = tmp_path / f"{name}{number}"
                folder.mkdir()
                site = Site(graph=graph, constants=constants, example=example, folder=folder)
                try:
                    run = self.built(site, settings)
                except TuneError as error:
                    assert "\n" not in str(error)  # noqa: PT017  # a refusal is one of two right answers
                    continue
                with torch.no_grad():
                    self.agree(run(*example), engine_models.plain(graph, constants, example), settings)

    def offered(self, graph: Graph) -> list[Settings]:
        """Return the settings for a graph; none where the engine refuses it with a sentence."""
        reason = self.engine.unsupported(graph)
        assert "\n" not in reason
        return [] if reason else list(self.engine.settings(graph, replace(MACHINE, num_threads=1)))

    def taken(self, name: str) -> engine_models.Captured:
        """Return a model; the test is skipped where the engine refuses it."""
        captured = engine_models.captured(name)
        if not self.offered(captured[0]):
            pytest.skip(f"the engine does not take the model {name}")
        return captured

    def agree(self, outputs: Any, expected: Any, settings: Settings) -> None:
        """Check outputs against PyTorch's: shape, dtype, strides, and values within the tolerance."""
        assert len(outputs) == len(expected)
        for place, (output, wanted) in enumerate(zip(outputs, expected, strict=True)):
            where = f"output {place} under {settings}"
            if wanted is None:
                assert output is None, where
                continue
            assert (output.shape, output.dtype, output.stride()) == (wanted.shape, wanted.dtype, wanted.stride()), where
            if not wanted.is_floating_point():
                assert torch.equal(output, wanted), where
                continue
            scale = wanted.abs().max().item() or 1.0
            assert (output - wanted).abs().max().item() <= self.tolerance * scale * 10, where
