"""The contract of `Engine` as tests: subclass `EngineContract` and give the `engine` fixture."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import engine_models
import pytest
import torch
from tune_builders import MACHINE

from jumar.tune.engines.base import Engine, GraphFunction, Settings, Site

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
WITH_COMPILER = replace(MACHINE, compiler="g++")

LOADS = """
import pickle, subprocess, sys, torch
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
        torch.save(list(run(*inputs)), Path(folder) / "outputs.pt")
"""


class EngineContract:
    """`models` are names of `engine_models` that the engine must take; it must take or refuse the others."""

    models: tuple[str, ...] = ("convolutions", "attention", "borders")
    tolerance = 2e-6
    """Of the greatest value."""

    @pytest.fixture
    def engine(self) -> Engine:
        raise NotImplementedError

    def built(self, engine: Engine, site: Site, settings: Settings) -> GraphFunction:
        with torch.no_grad():
            return engine.build(site, settings)

    def sites(self, tmp_path: Path, engine: Engine) -> list[tuple[Site, Settings, list[torch.Tensor]]]:
        found = []
        for name in self.models:
            graph, constants, example = engine_models.captured(name)
            for number, settings in enumerate(engine.settings(graph, replace(WITH_COMPILER, num_threads=1))):
                folder = tmp_path / f"{name}{number}"
                folder.mkdir()
                site = Site(graph=graph, constants=constants, example=example, folder=folder)
                found.append((site, settings, engine_models.other_inputs(example)))
        assert found
        return found

    def test_what_runs_in_the_tuner_imports_no_torch(self, engine: Engine) -> None:
        graphs = [engine_models.captured(name)[0] for name in self.models]
        code = (
            "import pickle, sys\n"
            "engine, graphs, machine = pickle.load(sys.stdin.buffer)\n"
            "for graph in graphs:\n"
            "    engine.unsupported(graph), engine.settings(graph, machine), engine.version()\n"
            "engine.unavailable(machine)\n"
            "sys.exit(any(name in sys.modules for name in ('torch', 'onnxruntime', 'openvino', 'onnx', 'tvm')))"
        )
        data = pickle.dumps((engine, graphs, WITH_COMPILER))
        assert subprocess.run([sys.executable, "-c", code], input=data, check=False, env=ENVIRONMENT).returncode == 0

    def test_it_offers_the_same_settings_each_time_and_they_are_json(self, engine: Engine) -> None:
        import json

        for name in self.models:
            graph = engine_models.captured(name)[0]
            assert engine.unsupported(graph) == ""
            offered = list(engine.settings(graph, WITH_COMPILER))
            assert offered
            assert offered == list(engine.settings(graph, WITH_COMPILER)) == json.loads(json.dumps(offered))

    def test_it_has_the_version_of_an_installed_package(self, engine: Engine) -> None:
        assert engine.version()[0].isdigit()

    def test_it_computes_what_pytorch_computes_on_changing_inputs(self, engine: Engine, tmp_path: Path) -> None:
        for site, settings, others in self.sites(tmp_path, engine):
            run = self.built(engine, site, settings)
            for inputs in (list(site.example), others):
                kept = [tensor.clone() for tensor in inputs]
                with torch.no_grad():
                    self.agree(run(*inputs), engine_models.plain(site.graph, site.constants, inputs), settings)
                assert all(map(torch.equal, kept, inputs))

    def test_outputs_of_earlier_calls_keep_their_values(self, engine: Engine, tmp_path: Path) -> None:
        site, settings, others = self.sites(tmp_path, engine)[0]
        run = self.built(engine, site, settings)
        with torch.no_grad():
            first = run(*site.example)
            kept = [output.clone() for output in first]
            run(*others)
        assert all(map(torch.equal, kept, first))

    def test_calls_from_several_threads_at_once_keep_apart(self, engine: Engine, tmp_path: Path) -> None:
        site, settings, others = self.sites(tmp_path, engine)[0]
        run = self.built(engine, site, settings)
        sets = [list(site.example), others, [tensor * 3 for tensor in site.example], [tensor * 5 for tensor in others]]
        expected = [engine_models.plain(site.graph, site.constants, inputs) for inputs in sets]

        def calls(number: int) -> list[Any]:
            with torch.no_grad():
                return [run(*sets[number]) for _ in range(50)]

        with ThreadPoolExecutor(len(sets)) as pool:
            for wanted, made in zip(expected, pool.map(calls, range(len(sets))), strict=True):
                for outputs in made:
                    self.agree(outputs, wanted, settings)

    def test_outputs_that_are_inputs_or_views_of_them_share_their_memory(self, engine: Engine, tmp_path: Path) -> None:
        graph, constants, example = engine_models.captured("borders")
        site = Site(graph=graph, constants=constants, example=example, folder=tmp_path)
        settings = engine.settings(graph, replace(WITH_COMPILER, num_threads=1))[0]
        with torch.no_grad():
            outputs = self.built(engine, site, settings)(*example)
        assert outputs[0] is example[0]
        assert outputs[1].data_ptr() == example[0].data_ptr()

    def test_copies_that_are_outputs_are_in_memory_of_their_own(self, engine: Engine, tmp_path: Path) -> None:
        graph, constants, example = engine_models.captured("copies")
        site = Site(graph=graph, constants=constants, example=example, folder=tmp_path)
        settings = engine.settings(graph, replace(WITH_COMPILER, num_threads=1))[0]
        with torch.no_grad():
            outputs = self.built(engine, site, settings)(*example)
            self.agree(outputs, engine_models.plain(graph, constants, example), settings)
        assert len({tensor.untyped_storage().data_ptr() for tensor in (*example, *outputs)}) == 5

    def test_another_process_loads_the_same_function_and_compiles_nothing(self, engine: Engine, tmp_path: Path) -> None:
        works, expected = [], []
        for site, settings, others in self.sites(tmp_path, engine):
            with torch.no_grad():
                expected.append(self.built(engine, site, settings)(*others))
            works.append((site.graph, site.constants, str(site.folder), settings, others))
        command = [sys.executable, "-W", "ignore", "-c", LOADS]
        data = pickle.dumps((engine, works))
        done = subprocess.run(command, input=data, check=False, env=ENVIRONMENT, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        for (_, _, folder, settings, _), wanted in zip(works, expected, strict=True):
            self.agree(torch.load(Path(folder) / "outputs.pt"), wanted, settings)

    def test_it_leaves_the_process_as_it_was(self, engine: Engine, tmp_path: Path) -> None:
        before = engine_models.process_state()
        for site, settings, _ in self.sites(tmp_path, engine):
            run = self.built(engine, site, settings)
            with torch.no_grad():
                run(*site.example)
        assert engine_models.process_state() == before

    def agree(self, outputs: Any, expected: Any, settings: Settings) -> None:
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
