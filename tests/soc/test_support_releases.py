"""Names of torch_npu that came, went or changed between its releases."""

from __future__ import annotations

import importlib.metadata

import pytest

from jumar.base.errors import DeviceError
from jumar.soc.support import SupportTables, chosen, releases
from jumar.soc.support.data import table
from jumar.soc.support.public_api import public_names
from jumar.soc.support.releases import (
    OF_TABLES,
    covered,
    installed_pair,
    instead,
    lacks,
    newest,
    signature_in,
    spans_of,
)

_OF_WHEELS = {
    *(f"torch_npu.npu.{home}{name}_task_queue_enable" for name in ("get", "set") for home in ("", "utils.")),
    "torch_npu.distributed.all_to_all_vc",
    "torch_npu.npu.utils.is_force_overflow_check",
}
"""Functions that the released wheels have and the vendor's list of 2.13 does not."""


def test_names_of_the_tables_release_are_those_of_the_other_tables() -> None:
    key = {"operator": "func: ", "c++": "torch_c_func: ", "environment": "torch_npu_public_env: ", "python": ""}
    now = {key[entry.kind] + entry.name: entry.signature for entry in public_names().values()}
    having = {name for name in table("torch_npu_releases")["names"] if not lacks(name, OF_TABLES)}
    assert having - set(now) == _OF_WHEELS
    assert {name for name in table("torch_npu_releases")["names"] if lacks(name, OF_TABLES)} & set(now) == set()
    for name in table("torch_npu_releases")["signatures"].keys() & now.keys():
        assert signature_in(name, OF_TABLES) == now[name]


def test_kernels_of_a_later_release_count_as_those_of_the_tables() -> None:
    assert newest() == "2.14"
    assert [covered(release) for release in ("2.1", "2.9", "2.13", "2.14")] == ["2.1", "2.9", "2.13", "2.13"]
    later, now = (SupportTables.load("Ascend910B1", release) for release in ("2.14", "2.13"))
    assert later.operator("aten::mm") == now.operator("aten::mm")
    assert later.operator("aten::mm").status == "native"
    assert later.api("torch.nn.Linear") == now.api("torch.nn.Linear")


def test_every_public_name_that_some_release_lacks_has_a_counterpart() -> None:
    names = [name for name in table("torch_npu_releases")["names"] if name.startswith("torch_npu.")]
    assert names
    assert [name for name in names if not instead(name).endswith(".")] == []
    assert instead("torch.npu.synchronize") == ""
    assert spans_of("torch.npu.MemPoolContext") == spans_of("torch_npu.npu.MemPoolContext") == "2.1-2.12"


@pytest.mark.parametrize(
    ("name", "release", "status"),
    [
        ("torch.npu.MemPoolContext", "2.12", "native"),
        ("torch.npu.MemPoolContext", "2.13", "unsupported"),
        ("torch_npu.npu.ipc_collect", "2.4", "unsupported"),
        ("torch_npu.npu.ipc_collect", "2.1", "native"),
        ("torch.npu.host_memory_stats", "2.6", "unsupported"),
        ("torch.npu.synchronize", "2.6", "native"),
    ],
)
def test_a_name_is_judged_by_its_release(name: str, release: str, status: str) -> None:
    found = SupportTables.load("Ascend910B1", release).api(name)
    assert found.status == status
    assert ("has no such name" in found.note) == (status == "unsupported")


def test_signatures_are_those_since_the_last_change() -> None:
    assert "customize_dtype" in signature_in("func: npu_format_cast", "2.1")
    assert "customize_dtype" not in signature_in("func: npu_format_cast", "2.4")
    assert "input_dtype" in signature_in("func: npu_format_cast", "2.9")
    assert signature_in("no such name", "2.9") == ""


@pytest.mark.parametrize(
    ("packages", "release", "origin", "is_assumed"),
    [
        (
            {"torch_npu": "2.6.0.post3", "torch": "2.6.0+cpu"},
            "2.6",
            "that of the torch_npu 2.6.0.post3 installed",
            False,
        ),
        ({"torch": "2.9.1+cu128"}, "2.9", "that of the torch 2.9.1+cu128 installed here", False),
        ({"torch": "2.14.1"}, "2.14", "that of the torch 2.14.1 installed here", False),
        ({"torch": "2.99.0"}, "2.14", "the newest known: that of the torch 2.99.0 installed here is not", True),
        ({}, "2.14", "the newest known: neither torch_npu nor torch is installed here", True),
    ],
)
def test_the_installed_pair_is_the_release_that_counts(
    packages: dict[str, str], release: str, origin: str, is_assumed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if name not in packages:
            raise importlib.metadata.PackageNotFoundError(name)
        return packages[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    installed_pair.cache_clear()
    try:
        assert (chosen().name, chosen().is_assumed) == (release, is_assumed)
        assert chosen().origin.startswith(origin)
        assert chosen("2.6.0+cpu").name == "2.6"
        assert chosen("2.6").origin == "as asked"
    finally:
        installed_pair.cache_clear()


@pytest.mark.parametrize("version", ["2.2", "2.15", "1.11", "latest", ""])
def test_another_release_is_refused_with_the_known_ones(version: str) -> None:
    with pytest.raises(DeviceError, match=f'got "{version}": use {", ".join(releases())}'):
        chosen(version)
