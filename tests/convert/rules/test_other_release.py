"""JM198, JM101 and JM187 by the release of torch_npu that a conversion is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.base.errors import UsageError
from jumar.base.findings import Finding
from jumar.convert import ConvertOptions, convert_files, convert_source
from jumar.convert.assess import assess_source
from jumar.convert.verify import verify


def convert(folder: Path, code: str, release: str) -> tuple[str, list[Finding]]:
    """Return the converted text and the findings, those of the proof too."""
    folder.mkdir(exist_ok=True)
    file = folder / "train.py"
    file.write_text(code)
    options = ConvertOptions(release=release)
    done = convert_files(folder, [file], options)
    return done.files[0].after.decode(), [*done.files[0].findings, *verify(done, options)]


@pytest.mark.parametrize(
    ("code", "without", "having", "counterpart"),
    [
        ("import torch, torch_npu\np = torch.npu.MemPoolContext(x)\n", "2.13", "2.12", "use_mem_pool"),
        ("import torch_npu\ntorch_npu.npu.ipc_collect()\n", "2.4", "2.5", "leave the call out"),
        ("from torch_npu.npu import host_memory_stats\nprint(host_memory_stats())\n", "2.6", "2.7", "operating system"),
        ("import torch, torch_npu\ntorch.npu.set_task_queue_enable(2)\n", "2.12", "2.14", "TASK_QUEUE_ENABLE"),
        ("import torch_npu\ntorch_npu.utils.save_async(x, f)\n", "2.4", "2.1", "torch.save"),
    ],
)
def test_a_name_of_another_release_is_found_with_its_counterpart(
    code: str, without: str, having: str, counterpart: str, tmp_path: Path
) -> None:
    text, findings = convert(tmp_path, code, without)
    assert text == code
    found = [finding for finding in findings if finding.code == "JM198"]
    assert found
    assert all(f"does not exist in torch_npu {without}" in finding.message for finding in found)
    assert all(counterpart in finding.action for finding in found)
    assert not [finding for finding in convert(tmp_path, code, having)[1] if finding.code == "JM198"]
    assessed = [
        finding for finding in assess_source(tmp_path, torch_version=without).findings if finding.code == "JM201"
    ]
    assert [finding for finding in assessed if counterpart in finding.action]
    assert not [
        finding for finding in assess_source(tmp_path, torch_version=having).findings if finding.code == "JM201"
    ]


@pytest.mark.parametrize(
    ("call", "without", "having"),
    [
        ("torch.npu.is_bf16_supported(including_emulation=True)", "2.8", "2.9"),
        ("torch_npu.profiler.schedule(wait=1, active=1, skip_first_wait=2)", "2.6", "2.14"),
        ("torch_npu.npu_format_cast(x, 2, input_dtype=1)", "2.5", "2.6"),
        ("torch_npu.npu.stress_detect('aic')", "2.4", "2.5"),
    ],
)
def test_an_argument_of_another_release_is_found(call: str, without: str, having: str, tmp_path: Path) -> None:
    code = f"import torch\nimport torch_npu\ny = {call}\n"
    findings = convert(tmp_path, code, without)[1]
    assert [finding for finding in findings if finding.code == "JM198" and "does not take this call" in finding.message]
    assert [finding.code for finding in assess_source(tmp_path, torch_version=without).findings] == ["JM210"]
    assert not [finding for finding in convert(tmp_path, code, having)[1] if finding.code == "JM198"]
    assert not assess_source(tmp_path, torch_version=having).findings


def test_a_counterpart_that_the_release_lacks_is_not_written(tmp_path: Path) -> None:
    code = "import torch\nprint(torch.cuda.host_memory_stats(), torch.cuda.memory_allocated())\n"
    text, findings = convert(tmp_path, code, "2.6")
    assert "torch.cuda.host_memory_stats()" in text
    assert "torch.npu.memory_allocated()" in text
    left = next(finding for finding in findings if "host_memory_stats" in finding.message)
    assert left.code == "JM101"
    assert "it is in 2.7-2.14" in left.message
    assert "operating system" in left.action
    assert "torch.npu.host_memory_stats()" in convert(tmp_path, code, "2.13")[0]
    assert not [finding for finding in findings if finding.code == "JM187"]


def test_a_release_that_is_not_known_is_refused() -> None:
    with pytest.raises(UsageError, match=r'"--torch-version 2.2" must be one of 2.1, 2.3, .*, 2.14'):
        ConvertOptions(release="2.2")


@pytest.mark.parametrize(
    ("code", "without", "having"),
    [
        ("from flash_attn import flash_attn_func\nx = flash_attn_func(q, k, v, causal=True)\n", "2.1", "2.3"),
        ("from apex.normalization import FusedRMSNorm\nx = FusedRMSNorm(8)\n", "2.3", "2.4"),
    ],
)
def test_similar_interfaces_are_those_of_the_release(code: str, without: str, having: str) -> None:
    left = convert_source(code, "a.py", ConvertOptions(similar=True, release=without))
    assert code.splitlines()[1] in left.after.decode()
    assert any(f"torch {without} has no torch.nn" in finding.message for finding in left.findings)
    text = convert_source(code, "a.py", ConvertOptions(similar=True, release=having)).after.decode()
    assert "x = torch.nn" in text


def test_groups_of_heads_are_written_where_pytorch_takes_them() -> None:
    code = "from flash_attn import flash_attn_func\nx = flash_attn_func(q, k, v)\n"
    for release, is_written in (("2.4", False), ("2.5", True)):
        found = convert_source(code, "a.py", ConvertOptions(similar=True, release=release))
        assert ("enable_gqa" in found.after.decode()) == is_written


def test_a_release_without_torch_accelerator_has_no_agnostic_form() -> None:
    with pytest.raises(UsageError, match=r"came with torch 2\.6; got .--torch-version 2\.5"):
        ConvertOptions(target="agnostic", release="2.5")
    assert ConvertOptions(target="agnostic", release="2.6").release == "2.6"
