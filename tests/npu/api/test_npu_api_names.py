"""Every public name of torch_npu resolves; what is not emulated refuses when it is used."""

from __future__ import annotations

import enum
import importlib
import inspect
import subprocess
import sys

import pytest
import torch

from jumar.convert.model import api_map
from jumar.device import DevicePlan, activate
from jumar.npu.api.alias import coverage
from jumar.npu.core import refusals
from jumar.soc.support.public_api import class_names, module_names, public_names, python_names

activate(DevicePlan(real="never"))

WITHOUT_A_SCHEMA = {"empty_with_format.names"}
"""Named tensors, which PyTorch has given up; the operator library declares no such overload."""


@pytest.fixture(scope="module")
def working() -> dict[str, bool]:
    """Python name -> whether it is emulated."""
    return {name: coverage.works(name) for name in sorted(python_names())}


OTHER_PARAMETERS = {
    "torch_npu.npu.MemPool": "takes PyTorch's further choices",
    "torch_npu.npu.memory.MemPool": "takes PyTorch's further choices",
    "torch_npu.npu.empty_cache": "takes a pool, as PyTorch's does",
    "torch_npu.npu.memory.empty_cache": "takes a pool, as PyTorch's does",
    "torch_npu.npu.memory_snapshot": "takes a pool, as PyTorch's does",
    "torch_npu.npu.memory.memory_snapshot": "takes a pool, as PyTorch's does",
    "torch_npu.profiler.profile": "takes PyTorch's execution_trace_observer",
    "torch_npu.profiler.profiler.profile": "takes PyTorch's execution_trace_observer",
    "torch_npu.testing.decorator.instantiate_tests": "the further keywords are not used by either",
    "torch_npu.testing.testcase.TestCase.assertWarns": "also takes unittest's own arguments",
}


LACKING = {
    "torch_npu.testing.decorator.instantiate_tests": {"**kwargs"},
}
"""Parameters of the vendor's that are not there."""


def own_parameters(value: object) -> tuple[str, ...]:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return tuple(stars.get(item.kind, "") + item.name for item in inspect.signature(value).parameters.values())


def test_the_vendors_table_is_whole() -> None:
    kinds = [entry.kind for entry in public_names().values()]
    assert {kind: kinds.count(kind) for kind in kinds} == {"python": 799, "operator": 19, "c++": 108, "environment": 10}


def test_every_public_name_resolves() -> None:
    missing = []
    for name, entry in public_names().items():
        try:
            if entry.kind in ("python", "operator"):
                coverage.resolve(name)
        except (AttributeError, ModuleNotFoundError):
            missing.append(name)
    assert set(missing) == WITHOUT_A_SCHEMA


@pytest.mark.parametrize("module", sorted(module_names()))
def test_a_module_of_the_vendors_is_imported_by_its_name(module: str) -> None:
    assert importlib.import_module(module) is not None


def test_what_is_not_emulated_says_so_when_it_is_used(working: dict[str, bool]) -> None:
    refused = [name for name, works in working.items() if not works]
    assert "torch_npu.npu.stop_device" in refused
    for name in refused:
        stand_in = coverage.resolve(name)
        needed = () if isinstance(stand_in, type) else own_parameters(stand_in)
        arguments = ["x" for parameter in needed if not parameter.startswith("*")]
        if not isinstance(stand_in, torch._ops.OpOverloadPacket):  # its schema is asked first: see the next test
            with pytest.raises((NotImplementedError, TypeError), match=name.rpartition(".")[2] + "|argument"):
                stand_in(*arguments)


def test_a_class_of_the_vendors_is_a_class() -> None:
    found = {name: coverage.resolve(name) for name in class_names()}
    assert [name for name, value in found.items() if not isinstance(value, type)] == []
    assert [name for name, value in found.items() if isinstance(object(), value)] == []


def test_the_parameters_are_the_vendors(working: dict[str, bool]) -> None:
    different = {}
    for name, works in working.items():
        vendor = public_names()[name].parameters
        stand_in = coverage.resolve(name) if works else None
        if isinstance(stand_in, enum.EnumMeta):  # each Python gives enumerations another signature
            continue
        try:
            own = own_parameters(stand_in) if works else vendor
        except ValueError:  # a class or function of C++ has no signature to read
            continue
        if own[:1] != vendor[:1] and own[:1] in (("self",), ("cls",), ("ctx",)):
            own = own[1:]
        # Operators check their schema themselves; the vendor's decorators hide what they wrap.
        if own != vendor and own[:1] != ("*args",) and vendor[:1] != ("*args",):
            different[name] = own
    assert different.keys() == OTHER_PARAMETERS.keys()
    lacking = {name: set(public_names()[name].parameters) - set(own) for name, own in different.items()}
    assert {name: names for name, names in lacking.items() if names} == LACKING


@pytest.mark.parametrize(
    "expression",
    [
        "torch_npu.no_such",
        "torch_npu.npu.no_such",
        "torch.npu.no_such",
        "torch_npu.utils.no_such",
        "torch_npu.npu.amp.no_such",
    ],
)
def test_a_name_the_vendor_does_not_have_is_an_attribute_error(expression: str) -> None:
    import torch_npu

    with pytest.raises(AttributeError, match="no attribute 'no_such'"):
        eval(expression, {"torch": torch, "torch_npu": torch_npu})


@pytest.mark.parametrize("module", ["torch_npu.npu.pools", "torch_npu.npu.nothing", "torch_npu.nothing.at_all"])
def test_a_module_the_vendor_does_not_have_does_not_import(module: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(module)


def test_every_name_that_a_conversion_may_write_is_there() -> None:
    table = api_map.table()
    written = {row["npu"] for row in table["names"] if row["npu"]} | set(table["npu_only"])
    assert len(written) > 150
    assert [name for name in sorted(written) if not hasattr(torch.npu, name)] == []


def test_the_modules_of_both_names_are_the_same() -> None:
    import torch_npu
    import torch_npu.npu.streams

    assert torch_npu.npu is torch.npu
    assert torch_npu.npu.streams.Stream is torch.npu.Stream


def test_a_function_keeps_its_name_beside_the_module_of_that_name() -> None:
    import torch_npu.contrib.function.roll
    import torch_npu.npu.mstx
    from torch_npu.contrib.function.roll import roll
    from torch_npu.npu.mstx import mstx

    assert torch_npu.contrib.function.roll is roll
    assert torch.npu.mstx is mstx


def test_a_refusal_names_the_nearest_thing_that_works() -> None:
    with pytest.raises(NotImplementedError, match=r"^torch_npu\.npu\.stop_device is .*torch\.npu\.synchronize\(\)\.$"):
        torch.npu.stop_device(0)


def test_a_refusal_that_nobody_wrote_advice_for_takes_a_similar_name() -> None:
    with pytest.raises(NotImplementedError, match=r"nearest thing that works is torch_npu\.npu\.get_device_name"):
        refusals.refuse("torch_npu.npu.get_device_nam")


def test_a_class_that_lacks_a_method_of_the_vendors_gets_one_that_refuses() -> None:
    class NPUGraph:
        def replay(self) -> str:
            return "own"

    refusals.complete("torch_npu.npu.NPUGraph", NPUGraph)
    assert NPUGraph().replay() == "own"
    with pytest.raises(NotImplementedError, match=r"NPUGraph\.pool is not emulated"):
        NPUGraph.pool()


def test_a_function_that_only_raises_counts_as_refused() -> None:
    assert refusals.is_refused(torch.npu.NPUGraph.debug_dump)
    assert not refusals.is_refused(torch.npu.NPUGraph.replay)
    assert not refusals.is_refused(torch.npu.set_option)


def test_importing_torch_npu_imports_no_part_of_it() -> None:
    code = (
        "from jumar.device import DevicePlan, activate; activate(DevicePlan(real='never')); import sys;"
        "before = set(sys.modules); import torch_npu; print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['torch_npu']"
