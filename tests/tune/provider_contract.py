"""The contract of `Provider` as tests: subclass `ProviderContract` and give the `provider` and `tasks` fixtures."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
import torch
from tune_builders import MACHINE

from jumar.tune.measure.worker.trial import Case
from jumar.tune.model.task import KINDS, Policy
from jumar.tune.providers import import_path, load_provider

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


class ProviderContract:
    """`tasks` are tasks that the provider must offer something for."""

    @pytest.fixture
    def provider(self):
        raise NotImplementedError

    @pytest.fixture
    def tasks(self):
        raise NotImplementedError

    def test_it_is_found_by_its_import_path(self, provider):
        assert type(load_provider(import_path(provider))) is type(provider)

    def test_its_policies_are_of_its_kind_and_survive_json(self, provider, tasks):
        assert provider.kind in KINDS
        for task in tasks:
            policies = provider.candidates(task, MACHINE)
            assert policies
            for policy in policies:
                assert (policy.kind, policy.provider) == (provider.kind, provider.name)
                assert Policy.from_json(policy.to_json()) == policy

    def test_it_offers_the_same_for_the_same_task(self, provider, tasks):
        for task in tasks:
            assert list(provider.candidates(task, MACHINE)) == list(provider.candidates(task, MACHINE))

    def test_offering_imports_no_torch(self, provider, tasks):
        code = (
            "import pickle, sys\n"
            "from jumar.tune.providers import load_provider\n"
            "tasks, machine, path = pickle.load(sys.stdin.buffer)\n"
            "[load_provider(path).candidates(task, machine) for task in tasks]\n"
            "sys.exit('torch' in sys.modules)"
        )
        data = pickle.dumps((tasks, MACHINE, import_path(provider)))
        assert subprocess.run([sys.executable, "-c", code], input=data, check=False, env=ENVIRONMENT).returncode == 0

    def test_what_it_computes_agrees_with_the_operator_on_changing_inputs(self, provider, tasks, tmp_path):
        for number, task in enumerate(tasks):
            for place, policy in enumerate(provider.candidates(task, MACHINE)):
                case = Case(task)
                site = case.site(tmp_path / f"{number}-{place}", 1)
                with torch.no_grad():
                    candidate = provider.apply(policy, case.plain, site.example, site)
                    judge = case.judge(candidate, (policy,))
                    for seed in (1, 2):
                        case.fill(seed)
                        assert judge.compare().detail == ""

    def test_it_leaves_the_process_as_it_was(self, provider, tasks, tmp_path):
        before = torch.get_num_threads(), torch.backends.mkldnn.enabled
        for number, task in enumerate(tasks):
            for place, policy in enumerate(provider.candidates(task, MACHINE)):
                case = Case(task)
                site = case.site(tmp_path / f"{number}-{place}", 1)
                with torch.no_grad():
                    provider.apply(policy, case.plain, site.example, site)(*case.tensors)
        assert (torch.get_num_threads(), torch.backends.mkldnn.enabled) == before
