"""Every provider keeps the contract; each offers what it says, and nothing where it has no business."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial

import pytest
import torch
from odd_providers import Separable
from provider_contract import ProviderContract
from tune_builders import MACHINE, mm_task, pool_task, spec

from jumar.tune.measure.worker.trial import Case
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import compiler_version
from jumar.tune.model.task import Policy, Task, describe, replace_in
from jumar.tune.providers import PROVIDERS, apply_stack, load_provider
from jumar.tune.providers.base import Provider
from jumar.tune.providers.formats import ChannelsLast, Contiguous
from jumar.tune.providers.pytorch import Inductor, Native, Threads


def conv_task(**fields) -> Task:
    arguments = {
        "bias": None, "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": False,
        "output_padding": [0, 0], "groups": 4,
    }  # fmt: skip
    tensors = {"input": spec(2, 4, 9, 9), "weight": spec(4, 1, 3, 3)}
    return Task(operator="aten::convolution", tensors=tensors | fields, arguments=arguments)


def transposed_mm() -> Task:
    return Task(operator="aten::mm", tensors={"self": spec(6, 8), "mat2": spec(8, 5, stride=(1, 8))}, arguments={})


def max_pool() -> Task:
    arguments = {"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0], "dilation": [1, 1], "ceil_mode": False}
    return Task(operator="aten::max_pool2d_with_indices", tensors={"self": spec(2, 3, 8, 8)}, arguments=arguments)


class TestChannelsLast(ProviderContract):
    @pytest.fixture
    def provider(self):
        return ChannelsLast()

    @pytest.fixture
    def tasks(self):
        return [conv_task(), max_pool()]

    def test_it_has_nothing_for_matrices_or_for_channels_that_are_last_already(self, provider):
        assert provider.candidates(mm_task(), MACHINE) == []
        last = conv_task(input=spec(2, 4, 9, 9, stride=(324, 1, 36, 4)))
        assert provider.candidates(last, MACHINE) == []


class TestContiguous(ProviderContract):
    @pytest.fixture
    def provider(self):
        return Contiguous()

    @pytest.fixture
    def tasks(self):
        return [transposed_mm()]

    def test_it_has_nothing_for_contiguous_inputs(self, provider):
        assert provider.candidates(mm_task(), MACHINE) == []


class TestNative(ProviderContract):
    @pytest.fixture
    def provider(self):
        return Native()

    @pytest.fixture
    def tasks(self):
        return [conv_task(), mm_task()]


class TestThreads(ProviderContract):
    @pytest.fixture
    def provider(self):
        return Threads()

    @pytest.fixture
    def tasks(self):
        return [mm_task()]

    def test_it_offers_the_powers_of_two_below_the_default(self, provider):
        machines = [replace(MACHINE, num_threads=number) for number in (1, 2, 6, 8)]
        offers = [provider.candidates(mm_task(), machine) for machine in machines]
        counts = [[policy.settings["num_threads"] for policy in policies] for policies in offers]
        assert counts == [[], [1], [1, 2, 4], [1, 2, 4]]


class TestSeparable(ProviderContract):
    """The tests' own provider keeps the contract too."""

    @pytest.fixture
    def provider(self):
        return Separable()

    @pytest.fixture
    def tasks(self):
        return [pool_task()]


@pytest.mark.slow
@pytest.mark.skipif(not compiler_version(), reason="TorchInductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # raised by TorchInductor's own imports
class TestInductor(ProviderContract):
    @pytest.fixture
    def provider(self):
        return Inductor()

    @pytest.fixture
    def tasks(self):
        return [transposed_mm()]


def test_without_a_compiler_inductor_says_what_to_install():
    assert "install g++" in Inductor().unavailable(MACHINE)
    assert Inductor().unavailable(replace(MACHINE, compiler="g++ 12")) == ""


def test_every_provider_has_a_name_of_its_own():
    names = [provider.name for provider in PROVIDERS]
    assert len(set(names)) == len(names)


def test_a_stack_applies_its_policies_from_the_inside_out(tmp_path):
    stack = replace_in(replace_in((), Threads().policy(num_threads=1)), ChannelsLast().policy())
    assert describe(stack) == "channels_last + threads num_threads=1"
    task = conv_task()
    case = Case(task)
    function = apply_stack(stack, case.plain, case.site(tmp_path, 1), PROVIDERS)
    assert torch.allclose(function(*case.tensors), case.plain(*case.tensors), atol=1e-6)


class Leaving(Provider):
    """Leaves a file that has the same name whoever leaves it, as an engine leaves its library."""

    name = "leaving"
    kind = "Impl"

    def candidates(self, task, machine):
        return [self.policy()]

    def apply(self, policy, function, example, site):
        assert list(site.folder.iterdir()) == []
        (site.folder / "library.so").write_text(self.name)
        return function


class LeavingToo(Leaving):
    name = "leaving_too"
    kind = "Schedule"


def test_policies_of_one_stack_leave_each_others_files_alone(tmp_path):
    providers = [Leaving(), LeavingToo()]
    apply_stack([one.policy() for one in providers], lambda: None, Case(mm_task()).site(tmp_path, 1), providers)
    assert sorted(file.read_text() for file in tmp_path.rglob("*.so")) == ["leaving", "leaving_too"]


def test_a_policy_of_an_unknown_provider_is_named(tmp_path):
    unknown = Policy(kind="Impl", provider="tvm")
    with pytest.raises(TuneError, match="tvm, which this Jumar does not have"):
        apply_stack((unknown,), lambda: None, Case(mm_task()).site(tmp_path, 1), PROVIDERS)


def test_a_policy_of_jumars_own_is_applied_also_where_others_search(tmp_path):
    case = Case(conv_task())
    site = case.site(tmp_path, 1)
    function = apply_stack((ChannelsLast().policy(),), case.plain, site, [Separable()])
    assert torch.allclose(function(*case.tensors), case.plain(*case.tensors), atol=1e-6)


@pytest.mark.parametrize("path", ["absent_module:Thing", "jumar.tune.model.task:Nothing", "builtins:dict"])
def test_an_import_path_without_a_provider_is_one_sentence(path):
    with pytest.raises(TuneError, match=path):
        load_provider(path)


def test_calls_of_two_threads_that_overlap_leave_the_switch_of_onednn_as_it_was():
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def first():
        first_is_in.set()
        assert second_is_in.wait(30)

    def second():
        second_is_in.set()
        assert first_is_out.wait(30)
        return torch._C._get_mkldnn_enabled()

    def applied(function):
        return Native().apply(Native().policy(), function, (), None)

    def in_a_thread():
        applied(first)()
        first_is_out.set()

    before = torch._C._get_mkldnn_enabled()
    thread = threading.Thread(target=in_a_thread)
    thread.start()
    assert first_is_in.wait(30)
    try:
        assert not applied(second)(), "off while a call is under way"
        thread.join()
        assert torch._C._get_mkldnn_enabled() == before
    finally:
        torch._C._set_mkldnn_enabled(before)


def test_threads_are_put_back_to_what_the_program_uses_now():
    before = torch.get_num_threads()
    function = Threads().apply(Threads().policy(num_threads=1), torch.get_num_threads, (), None)
    torch.set_num_threads(before + 1)
    try:
        assert (function(), torch.get_num_threads()) == (1, before + 1)
    finally:
        torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # raised by TorchInductor's own imports
def test_compiled_operators_of_one_program_do_not_count_as_one_that_is_compiled_again(tmp_path, monkeypatch):
    import torch._dynamo
    from torch._inductor import config

    before = config.compile_threads
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    with torch._dynamo.config.patch(recompile_limit=1), torch.no_grad():
        for size in (4, 6):
            case = Case(mm_task(size))
            site = case.site(tmp_path / str(size), 1)
            made = Inductor().apply(Inductor().policy(), case.plain, site.example, site)
            assert torch.equal(made(*case.tensors), case.plain(*case.tensors))
    torch._dynamo.reset()
    assert config.compile_threads == before
