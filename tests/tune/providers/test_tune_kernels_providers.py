"""The kernels as providers of single operators keep the contract of providers, and leave alone what they lack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from provider_contract import ProviderContract
from tune_builders import MACHINE, spec

from jumar.base.native import compiler
from jumar.tune.engines.kernels.library import widths
from jumar.tune.model.task import Task, TensorSpec
from jumar.tune.providers import engine as kernels
from jumar.tune.providers.base import Provider
from jumar.tune.providers.engine import KernelsOperator, KernelsSchedule

pytestmark = pytest.mark.skipif(not compiler(), reason="no C++ compiler is installed")


@pytest.fixture(scope="module", autouse=True)
def _compiled_once(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        # One library in place of one for each width of vectors: those are tests of the engine.
        patch.setattr(kernels, "widths", lambda: widths()[:1])
        yield


def weight(*shape: int) -> TensorSpec:
    return replace(spec(*shape), constant=True)


def convolution(*, channels: int = 20, groups: int = 1, kernel: int = 3, batch: int = 2) -> Task:
    return Task(
        operator="aten::convolution",
        tensors={"input": spec(batch, channels, 30, 30), "weight": weight(20, channels // groups, kernel, kernel)},
        arguments={
            "bias": None, "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": False,
            "output_padding": [0, 0], "groups": groups,
        },
    )  # fmt: skip


def linear(*rows: int) -> Task:
    return Task(
        operator="aten::linear",
        tensors={"input": spec(*rows, 300), "weight": weight(200, 300)},
        arguments={"bias": None},
    )


def gelu(approximate: str) -> Task:
    return Task(operator="aten::gelu", tensors={"self": spec(37, 301)}, arguments={"approximate": approximate})


class KernelsContract(ProviderContract):
    @pytest.fixture
    def tasks(self) -> list[Task]:
        return [convolution(), linear(8)]

    @pytest.mark.parametrize(
        "task",
        [
            replace(linear(8), tensors={"input": spec(8, 300), "weight": spec(200, 300)}),
            linear(2, 8),
            gelu("none"),
            Task(
                operator="aten::_softmax",
                tensors={"self": spec(99, 999)},
                arguments={"dim": -1, "half_to_float": False},
            ),
        ],
        ids=["variable-weight", "stacked-rows", "gelu-by-erf", "softmax"],
    )
    def test_what_they_do_not_compute_is_left_alone(self, provider: Provider, task: Task) -> None:
        assert list(provider.candidates(task, MACHINE)) == []


class TestKernelsOperator(KernelsContract):
    @pytest.fixture
    def tasks(self) -> list[Task]:
        return [convolution(), convolution(groups=20, batch=1), linear(8), gelu("tanh")]

    @pytest.fixture
    def provider(self) -> Provider:
        return KernelsOperator()


class TestKernelsSchedule(KernelsContract):
    @pytest.fixture
    def provider(self) -> Provider:
        return KernelsSchedule()

    def settings_of(self, provider: Provider, task: Task) -> list[dict[str, Any]]:
        return [dict(policy.settings) for policy in provider.candidates(task, MACHINE)]

    def test_narrower_vectors_are_offered(self, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kernels, "widths", lambda: [16, 8, 4])
        assert [one.get("vector") for one in self.settings_of(provider, gelu("tanh"))] == [8, 4]

    def test_tiles_are_offered_for_filters_of_three_only(self, provider: Provider) -> None:
        tiles = [one.get("winograd") for one in self.settings_of(provider, convolution())]
        assert [tile for tile in tiles if tile] == [2, 4]
        assert not any("winograd" in one for one in self.settings_of(provider, convolution(kernel=5)))

    def test_images_one_by_one_are_offered_for_batches_only(self, provider: Provider) -> None:
        assert any(one.get("images") == 1 for one in self.settings_of(provider, convolution(batch=2)))
        assert not any("images" in one for one in self.settings_of(provider, convolution(batch=1)))
