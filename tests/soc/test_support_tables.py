from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.base.errors import DeviceError
from jumar.soc.support import SupportTables, known_versions
from jumar.soc.support.data import FOLDER, kinds, table

FILES = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize("name", FILES)
def test_every_table_names_its_source_and_licence(name: str) -> None:
    header = table(name)["header"]
    assert header["source"]
    assert header["licence"]


def test_the_readme_names_every_table() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [name for name in FILES if f"`{name}.json`" not in text] == []


@pytest.mark.parametrize("version", ["2.13", "2.13.0", "2.13.0+cpu", "v2.7", "2.11.0a0", " 2.12 "])
def test_a_version_is_read_by_its_first_two_numbers(version: str) -> None:
    assert SupportTables.load("Ascend910B1", version).torch_version in known_versions()


@pytest.mark.parametrize("version", ["2.2", "1.11", "2.130", "", "latest"])
def test_an_unknown_version_is_refused_with_the_known_ones(version: str) -> None:
    with pytest.raises(DeviceError, match=r"use 2\.1, 2\.3, .* 2\.13, 2\.14\.$"):
        SupportTables.load("Ascend910B1", version)


def test_loading_needs_no_torch_and_a_fraction_of_a_second() -> None:
    code = (
        "import sys, time, json; import jumar.soc.profiles; start = time.perf_counter();"
        "from jumar.soc.support import SupportTables; tables = SupportTables.load('Ascend910B1');"
        "tables.operator('aten::add.Tensor'); tables.api('torch.nn.Linear');"
        "print(json.dumps([time.perf_counter() - start, 'torch' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, has_torch = json.loads(done.stdout)
    assert not has_torch
    assert seconds < 1.0  # about 0.03 s; the bound only catches an accident such as importing torch


def test_every_operator_that_is_named_is_an_operator_of_pytorch() -> None:
    official = table("npu_operators")["official"]
    gone = {name for name, routes in official.items() if all(last >= 13 for _, last in routes.values())} - set(kinds())
    assert gone == set()


def test_what_composites_call_is_known() -> None:
    calls = table("pytorch_operators")["calls"]
    called = {name for names in calls.values() for name in names if "::" not in name}
    assert called - set(kinds()) == set()


def test_the_kinds_are_those_of_the_installed_pytorch() -> None:
    torch = pytest.importorskip("torch")
    if torch.__version__.partition("+")[0] != table("pytorch_operators")["torch"]:
        pytest.skip("another PyTorch than the tables were made with")
    key = "CompositeImplicitAutograd"
    names = [name for name in sorted(kinds())[::97] if kinds()[name] == "implicit"]
    assert names
    assert [n for n in names if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{n}", key)] == []


def test_every_alias_ends_at_a_listed_api() -> None:
    listed = table("npu_apis")["apis"]
    assert [name for name, target in table("pytorch_operators")["aliases"].items() if target not in listed] == []


def test_the_data_is_packaged() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert "soc/data/*" in project
