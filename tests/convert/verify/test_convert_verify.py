"""`verify` finds nothing in sound conversions and catches broken ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from jumar.base.findings import Edit
from jumar.convert import Conversion, ConvertOptions, Success, convert_source
from jumar.convert.verify import names, verify
from jumar.convert.verify.rules.changes_outside_edits import difference, reduced

PROGRAM = """\
    import os

    import torch
    from enum import Enum


    class Device(Enum):
        CUDA = "a"
        CPU = "b"


    def pick(cuda: bool = False, device="cuda:0"):  # the device
        return Device.CUDA if cuda else Device.CPU


    table = {"cuda": 1, "cpu": 2}
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # one a process
    x = torch.zeros(3).cuda(non_blocking=True)
    print(pick(cuda=x.is_cuda), table["cuda"])
    """


def outcome(source: str = PROGRAM, path: str = "a.py") -> Success:
    found = convert_source(dedent(source), path)
    assert isinstance(found, Success)
    assert found.changed
    return found


def codes(*outcomes: Success) -> list[str]:
    return [finding.code for finding in verify(Conversion(Path(), outcomes))]


def mutated(old: str, new: str, source: str = PROGRAM) -> Success:
    found = outcome(source)
    text = found.after.decode()
    assert old in text
    return replace(found, after=text.replace(old, new, 1).encode())


def messages(changed: Success) -> str:
    return "\n".join(f"{found.code} {found.where} {found.message}" for found in verify(Conversion(Path(), (changed,))))


def test_a_sound_conversion_has_no_findings() -> None:
    assert codes(outcome()) == []


def test_a_file_without_a_change_is_not_looked_at() -> None:
    same = convert_source("import torch\nundefined\n", "a.py")
    assert verify(Conversion(Path(), (same,))) == []


@pytest.mark.parametrize(
    ("old", "new", "code", "word"),
    [
        ("set_device(int(", "set_device(int((", "JM185", "valid Python"),
        ("import os\n", "", "JM186", "`os` is not defined"),
        ("import torch\n", "", "JM186", "`torch` is not defined"),
        ("torch.npu.set_device", "torch.npu.set_devices", "JM187", "torch.npu.set_devices"),
        ("torch.npu.set_device", "torch.npu.nccl.version", "JM187", "torch.npu.nccl.version"),
        ("torch.npu.set_device(", "torch.npu.set_device(device_id=", "JM187", "device_id"),
        ("torch.npu.set_device(", "torch.npu.set_device(0, ", "JM187", "at most 1"),
        ("torch.npu.set_device(", "torch.accelerator.synchronize(device=", "JM187", "by the name `device`"),
        ("    CUDA =", "    NPU =", "JM188", "`Device` defines no `CUDA`"),
        ("return Device.CUDA", "return Device.NPU", "JM188", "`Device` defines no `NPU`"),
        ("pick(cuda: bool", "pick(npu: bool", "JM188", "`pick` takes no argument `cuda`"),
        ("pick(cuda=x", "pick(npu=x", "JM188", "`pick` takes no argument `npu`"),
        ('{"cuda": 1', '{"npu": 1', "JM188", "`table` holds no key 'cuda'"),
        ('table["cuda"]', 'table["npu"]', "JM188", "`table` holds no key 'npu'"),
        ("# one a process", "# one per process", "JM189", "not what the recorded edits give"),
        ("# the device", "# the  device", "JM189", "not what the recorded edits give"),
        ('CPU = "b"', 'CPU = "c"', "JM189", "no edit is recorded"),
        ('table["cuda"])\n', 'table["cuda"])', "JM189", "not what the recorded edits give"),
        ("x.is_npu", "x.is_cuda", "JM189", "a second conversion changes this line again"),
    ],
)  # fmt: skip
def test_a_broken_conversion_is_caught(old: str, new: str, code: str, word: str) -> None:
    said = messages(mutated(old, new))
    assert any(line.startswith(code) and word in line for line in said.splitlines()), said


def test_the_line_of_a_finding_is_one_of_the_result() -> None:
    changed = mutated("torch.npu.set_device", "torch.npu.set_devices")
    line = (
        changed.after.decode()
        .split("\n")
        .index(next(line for line in changed.after.decode().split("\n") if "set_devices" in line))
    )
    found = [finding for finding in verify(Conversion(Path(), (changed,))) if finding.code == "JM187"]
    assert [finding.where.line for finding in found] == [line + 1]


def test_what_the_original_had_is_not_reported() -> None:
    source = """\
        import torch
        from enum import Enum

        class Kind(Enum):
            A = 1

        undefined, Kind.B, {"a": 1}["b"]
        torch.no_such_name(1, 2)
        x = torch.zeros(3).cuda()
        """
    assert codes(outcome(source)) == []


@pytest.mark.parametrize(
    ("place", "served"),
    [
        ("import torch\nimport torch_npu\ntorch.npu.synchronize()\n", True),
        ("import torch\ntry:\n    import torch_npu\nexcept ImportError:\n    pass\ntorch.npu.synchronize()\n", True),
        ("import torch\ndef f():\n    import torch_npu\n    torch.npu.synchronize()\n", True),
        ("import torch\ndef f():\n    torch.npu.synchronize()\nimport torch_npu\n", True),
        ("import torch\ntorch.npu.synchronize()\nimport torch_npu\n", False),
        ("import torch\ndef f():\n    import torch_npu\ntorch.npu.synchronize()\n", False),
        ("import torch\nif TYPE_CHECKING:\n    import torch_npu\ntorch.npu.synchronize()\n", False),
    ],
)
def test_torch_npu_is_imported_before_it_is_used(place: str, served: bool) -> None:
    before = place.replace("import torch_npu", "pass").replace("npu", "cuda")
    found = Success(path="a.py", before=before.encode(), after=place.encode())
    late = [line for line in messages(found).splitlines() if "has not run" in line]
    assert bool(late) is not served


@pytest.mark.parametrize(
    ("call", "accepted"),
    [
        ("torch.get_device_module().get_rng_state()", True),
        ("torch.get_device_module().no_such_name()", False),
        ("torch.accelerator.current_stream(0)", True),
        ("torch.accelerator.nccl", False),
        ("torch.amp.autocast('npu', enabled=True)", True),
        ("torch.amp.autocast(enabled=True)", False),
        ("torch.amp.autocast(*arguments, **more)", True),
        ("torch_npu.optim.NpuFusedAdamW([], lr=0.1)", True),
        ("torch_npu.optim.NpuFusedAdamW([], momentum=0.1)", False),
        ("torch_npu.npu_fusion_attention(q, k, v, head_num=8, input_layout='BSH', scale=1.0)", True),
        ("torch_npu.npu_fusion_attention(q, k, v, heads=8, input_layout='BSH')", False),
        ("torch.npu.Stream(priority=0).wait_anything()", True),
        ("torch.OutOfMemoryError", True),
        ("torch.npu.OutOfMemoryError", False),
    ],
)
def test_names_and_arguments_are_looked_up(call: str, accepted: bool) -> None:
    before = "import torch\nimport torch_npu\nq = k = v = arguments = more = None\npass\n"
    found = Success(path="a.py", before=before.encode(), after=before.replace("pass", call).encode())
    assert ("JM187" not in messages(found)) is accepted, messages(found)


@pytest.mark.parametrize(
    ("text", "contradicts"),
    [
        ("p.add_argument('--device', default='npu', choices=['cuda', 'cpu'])", True),
        ("p.add_argument('--device', default='npu', choices=['npu', 'cpu'])", False),
        ("init(backend='npu:nccl')", True),
        ("init(backend='npu:hccl,cpu:gloo')", False),
        ("class A:\n    def cuda(self): return self.npu()", True),
        ("class A(Base):\n    def cuda(self): return self.npu()", False),
    ],
)
def test_contradictions_within_a_file(text: str, contradicts: bool) -> None:
    found = Success(path="a.py", before=b"pass\n", after=f"{text}\n".encode())
    assert ("JM188" in messages(found)) is contradicts, messages(found)


def notebook(*cells: str) -> bytes:
    return json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]}).encode()


def test_cells_of_a_notebook_are_checked() -> None:
    before = notebook("%matplotlib inline\nimport torch", "!nvidia-smi\nx = torch.zeros(3)")
    sound = Success(path="a.ipynb", before=before, after=before.replace(b"zeros", b"ones_"))
    assert "JM185" not in messages(sound)
    broken = Success(path="a.ipynb", before=before, after=before.replace(b"zeros(3)", b"zeros(3"))
    assert "JM185 a.ipynb code cell 2" in messages(broken)
    undefined = Success(path="a.ipynb", before=before, after=before.replace(b"import torch", b"import os   "))
    assert "JM186 a.ipynb `torch` is not defined" in messages(undefined)


def test_json_that_is_none_any_more_is_reported() -> None:
    found = Success(path="a.json", before=b'{"device": "cuda"}', after=b'{"device": "npu}')
    assert "JM185 a.json it is not valid JSON" in messages(found)


def test_another_encoding_is_reported() -> None:
    source = "# -*- coding: gbk -*-\n# 设备\nimport torch\nx = torch.zeros(3).cuda()\n"
    found = convert_source(source.encode("gbk"), "a.py")
    assert isinstance(found, Success)
    assert codes(found) == []
    rewritten = replace(found, after=found.after.decode("gbk").encode())
    assert "JM189" in codes(rewritten)


def test_edits_of_one_line_compose() -> None:
    line = "a.cuda(b.cuda())  # cuda\n"
    edits = [
        Edit(path="a", start_line=1, end_line=1, before=line, after="a.npu(b.cuda())  # cuda\n"),
        Edit(path="a", start_line=1, end_line=1, before=line, after="a.cuda(b.npu())  # cuda\n"),
    ]
    assert difference(line, "a.npu(b.npu())  # cuda\n", edits) is None
    assert difference(line, "a.npu(b.npu())  # npu\n", edits) is not None
    assert difference(line, "a.npu(b.cuda())  # cuda\n", edits) is not None


def test_insertions_at_one_place_may_come_in_any_order() -> None:
    edits = [
        Edit(path="a", start_line=2, end_line=2, before="x\n", after=f"import {name}\nx\n") for name in ("os", "sys")
    ]
    assert difference("a\nx\n", "a\nimport sys\nimport os\nx\n", edits) is None
    assert difference("a\nx\n", "a\nimport sys\nimport io\nx\n", edits) is not None


def test_an_edit_of_another_text_is_reported() -> None:
    edit = Edit(path="a", start_line=1, end_line=1, before="y\n", after="z\n")
    assert difference("x\n", "z\n", [edit]) is not None


def test_edits_are_reduced_to_tokens() -> None:
    found = reduced("torch.cuda.x(1)\n", "torch.npu.x(1)\n", 10)
    assert [(item.start, item.end, item.text) for item in found] == [(16, 20, "npu")]


def test_the_options_of_the_conversion_are_used_again() -> None:
    source = "import torch\ndef f(m):\n    return m.cuda\n"
    first = convert_source(source, "a.py", ConvertOptions(unsafe=True))
    assert verify(Conversion(Path(), (first,)), ConvertOptions(unsafe=True)) == []


@pytest.mark.parametrize(("release", "has_pool"), [("2.12", True), ("2.13", False)])
def test_a_name_is_looked_up_in_the_release_of_the_conversion(release: str, has_pool: bool) -> None:
    assert names.exists("torch.npu.MemPoolContext", release) is has_pool
    assert names.exists("torch.npu.synchronize", release)
    assert names.elsewhere("torch.npu.MemPoolContext") == "2.1-2.12"
