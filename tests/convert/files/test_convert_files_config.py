"""YAML, JSON, TOML and INI configurations: words changed in place, everything else left and reported."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
from file_cases import converted_file, file_findings, left_in_file, outcome_of_file
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.findings import Severity
from jumar.convert.files.config.flow import scan_json
from jumar.convert.files.config.kinds import scan_ini, scan_toml
from jumar.convert.files.config.yaml import scan_yaml
from jumar.convert.files.draft.indented import Block
from jumar.convert.model.outcome import Skip
from jumar.convert.model.project import ProjectFacts

YAML = """\
# device: cuda
device: cuda   # where
'map_location': "cuda:1"
dist_params: &dist {backend: nccl, port: 29500}   # flow
devices:
  - cuda:0
  -   'cuda:1'
model:
    type: CudaNet
    impl: cuda
    other: *dist
path: /data/cuda/model
compound: cpu:gloo
template: {{ device }}
note: cuda is fast
---
distributed_backend: 'nccl'
distributed_type: MULTI_GPU
"""


def test_words_under_device_and_back_end_keys_change_and_nothing_else() -> None:
    after = converted_file(YAML, "a.yaml")
    assert after == (
        YAML.replace("device: cuda   #", "device: npu   #")
        .replace('"cuda:1"', '"npu:1"')
        .replace("backend: nccl,", "backend: hccl,")
        .replace("- cuda:0", "- npu:0")
        .replace("'cuda:1'", "'npu:1'")
        .replace("'nccl'", "'hccl'")
        .replace("MULTI_GPU", "MULTI_NPU")
    )
    (finding,) = left_in_file(YAML, "a.yaml", "JM123")
    assert (finding.where.line, finding.severity) == (10, Severity.WARNING)


def test_the_agnostic_target_leaves_devices_and_takes_auto_where_it_is_understood() -> None:
    text = "accelerator: gpu\ndevice: cuda\nbackend: nccl\n"
    assert converted_file(text, "a.yml", target="agnostic") == text.replace("gpu", "auto")
    assert [finding.where.line for finding in left_in_file(text, "a.yml", "JM123", target="agnostic")] == [2, 3]
    assert converted_file(text, "a.yml") == text.replace("cuda", "npu").replace("nccl", "hccl")
    assert "Lightning" in left_in_file(text, "a.yml", "JM123")[0].message


def test_the_project_decides_about_keys_that_others_read() -> None:
    text = "device: cuda\nengine: cuda\naccelerator: gpu\n"
    words = {"device": False, "engine": True, "accelerator": True}
    after = outcome_of_file(text, "a.yml", project=ProjectFacts(words=words)).after
    assert after == b"device: cuda\nengine: npu\naccelerator: npu\n"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.json", '{\n  "comm_backend_name": "nccl",\r\n "x": [1, {"device":"cuda:0"}]}', None),
        ("a.toml", "[train]\ndevice = \"cuda:0\" # c\nddp = {backend = 'nccl', n = 1}\n", None),
        ("a.ini", "[train]\nDevice: cuda:0\nbackend=nccl\n", None),
        ("a.cfg", "[train]\ndevice = CUDA\n", "[train]\ndevice = NPU\n"),
    ],
)
def test_other_formats(name: str, before: str, after: str | None) -> None:
    wanted = after or before.replace("nccl", "hccl").replace("cuda", "npu")
    assert converted_file(before, name) == wanted


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("attn_implementation: flash_attention_2", "JM129"),
        ("optim: adamw_bnb_8bit", "JM129"),
        ("optimizer: {type: OneBitAdam}", "JM129"),
        ("tf32: true", "JM129"),
        ("load_in_4bit: True", "JM129"),
        ("fp8: hybrid", "JM129"),
        ("use_cuda: true", "JM123"),
        ("gpus: 4", "JM123"),
        ("runtime: nvidia", "JM124"),
        ("image: nvidia/cuda:12.1.0-devel", "JM124"),
        ("image: pytorch/pytorch:2.1.0-cuda12.1-cudnn8-devel", "JM124"),
        ("limits: {nvidia.com/gpu: 1}", "JM124"),
        ("capabilities: [gpu]", "JM124"),
        ("env: {NCCL_DEBUG: INFO}", "JM120"),
    ],
)
def test_what_stays_is_reported(text: str, code: str) -> None:
    (finding,) = left_in_file(f"{text}\n", "a.yml", code)
    assert finding.action
    assert not outcome_of_file(f"{text}\n", "a.yml").changed


@pytest.mark.parametrize(
    "text",
    [
        "tf32: false", "train_micro_batch_size_per_gpu: 4", "attn_implementation: sdpa", "path: a/cuda", "cpu: gloo",
        "optim: adamw_torch", "image: ubuntu:22.04", "name: gpunet", "title: cuda training", "a: 8bit"
    ],
)  # fmt: skip
def test_what_has_nothing_to_do_with_cuda_is_no_finding(text: str) -> None:
    assert isinstance(outcome_of_file(f"{text}\n", "a.yml"), Skip)


def test_unsafe_switches_are_made_when_asked_for() -> None:
    text = "attn_implementation: 'flash_attention_2' # c\noptim: paged_adamw_8bit\ntf32: true\n"
    after = "attn_implementation: 'sdpa' # c\noptim: adamw_torch\ntf32: false\n"
    assert converted_file(text, "a.yml", unsafe=True) == after


def test_environment_in_compose_files_manifests_and_workflows() -> None:
    text = (
        'environment:\n  - CUDA_VISIBLE_DEVICES=1,0\n  - "NCCL_SOCKET_IFNAME=eth0"\n'
        "env:\n  CUDA_LAUNCH_BLOCKING: '1'\n"
        "spec:\n  env:\n  - name: CUDA_VISIBLE_DEVICES\n    value: '3,2'\n"
    )
    after = (
        'environment:\n  - ASCEND_RT_VISIBLE_DEVICES=0,1\n  - "HCCL_SOCKET_IFNAME=eth0"\n'
        "env:\n  ASCEND_LAUNCH_BLOCKING: '1'\n"
        "spec:\n  env:\n  - name: ASCEND_RT_VISIBLE_DEVICES\n    value: '2,3'\n"
    )
    assert converted_file(text, "a.yml") == after


def test_commands_in_configurations_are_read_as_commands() -> None:
    text = (
        "run: |\n  CUDA_VISIBLE_DEVICES=0 python a.py \\\n    --device cuda\n\n"
        'command: ["python", "a.py", "--device", "cuda"]\n'
        "args:\n- --dist-backend\n- nccl\n"
        "script: python a.py --device cuda\n"
        "description: python a.py --device cuda\n"
    )
    after = converted_file(text, "a.yml")
    assert after == (
        text.replace("CUDA_VISIBLE", "ASCEND_RT_VISIBLE")
        .replace("cuda", "npu", 3)
        .replace("nccl", "hccl")
    )  # fmt: skip


def test_a_key_that_counts_gpus_is_said_once_a_file() -> None:
    text = "a: {num_gpu: 1}\nb: {num_gpu: 2}\nnum_gpu: 3\n"
    assert [finding.where.line for finding in file_findings(text, "a.yml", "JM123")] == [1]


def test_data_and_broken_files_are_left() -> None:
    from jumar.convert.files import kind_of

    assert kind_of("vocab.json", b'{"cuda": 1}') is None
    assert kind_of("a.json", b"{" + b" " * (3 << 20) + b"}") is None
    assert kind_of("a.yaml", b"\0cuda") is None
    for broken in ('{"device": "cuda', '{"a": [}]]{"device": "cuda"', "]", "{", ""):
        outcome_of_file(broken, "a.json")


@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "utf-8-sig", "utf-16"])
def test_encodings_and_line_ends_survive(encoding: str) -> None:
    text = "说明: '诶：训练'\r\ndevice: cuda\r\n# 诶"
    after = outcome_of_file(text.encode(encoding), "a.yml").after
    assert after == text.replace("cuda", "npu").encode(encoding)


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=6), st.sampled_from(["cuda", "nccl", "gpu"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.text(max_size=5), st.sampled_from(["device", "backend", "env"])), inner, max_size=3
        ),
    ),
    max_leaves=8,
)


def leaves(value: object) -> list[str]:
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    return [json.dumps(value).strip('"') if not isinstance(value, str) else json.dumps(value)[1:-1]]


@given(st.dictionaries(st.text(max_size=4), JSON_VALUES, max_size=4), st.sampled_from([None, 0, 2]))
def test_the_scanner_of_json_sees_the_values_that_the_parser_sees(value: dict[str, object], indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert [entry.value for entry in scan_json(text)] == leaves(value)
    assert [entry.value for entry in scan_yaml(text)] == leaves(value)


@given(JSON_VALUES)
def test_a_converted_json_document_has_the_same_keys(value: object) -> None:
    text = json.dumps({"device": value, "x": {"device": "cuda"}})
    after = json.loads(outcome_of_file(text.encode(), "a.json").after)
    assert after["x"] == {"device": "npu"}
    assert leaves_count(after) == leaves_count(json.loads(text))


def leaves_count(value: object) -> int:
    return len(leaves(value))


TEXT = st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8"), max_size=60)
PIECES = st.lists(
    st.sampled_from(
        [
            "device: cuda\n", "a:\n", "  - ", "- ", "b: |\n", "   text\n", "{", "}", "[", "]", ",", ": ", '"', "'", "#",
            "\n", "\r\n", "&x ", "*x", "!t ", "\t", "  ", "k=v", "[s]\n", "x = ", '"""', "{{ t }}", "---\n", "\\",
            "nccl", "é", ">-\n",
        ]
    ),
    max_size=25,
).map("".join)  # fmt: skip


@given(st.one_of(PIECES, TEXT))
def test_scanners_take_any_text_and_give_true_positions(text: str) -> None:
    for scan in (scan_yaml, scan_json, scan_toml, scan_ini):
        for entry in scan(text):
            assert text[entry.start : entry.end] == entry.value
            if entry.key_span is not None and scan in (scan_yaml, scan_json):
                assert text[slice(*entry.key_span)] == entry.key


@given(st.one_of(PIECES, TEXT))
def test_any_configuration_is_converted_once(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    for name in ("a.yaml", "a.json", "a.toml", "setup.cfg", "pyproject.toml", "environment.yml"):
        once = outcome_of_file(data, name).after
        assert outcome_of_file(once, name).after == once


def test_the_scanner_of_toml_sees_the_values_that_the_parser_sees() -> None:
    tomllib = pytest.importorskip("tomllib")
    text = '[a."b.c"]\nx.y = "cuda" # c\nz = [1, "two", {q = \'3\'}]\n[[t]]\nw = """\nm"""\nv = 1.5\n'
    assert tomllib.loads(text) is not None
    found = [(entry.path, entry.value) for entry in scan_toml(text)]
    assert found == [
        (("a", "b.c", "x", "y"), "cuda"), (("a", "b.c", "z"), "1"), (("a", "b.c", "z"), "two"),
        (("a", "b.c", "z", "q"), "3"), (("t", "w"), "\nm"), (("t", "v"), "1.5"),
    ]  # fmt: skip


def test_the_scanner_of_yaml_knows_nesting() -> None:
    text = "a:\n  b: 1\n  c:\n  - d: 2\n    e: 3\n  - 4\nf:\n- - 5\n- g:\n    h: 6\ni: >-\n  x\n\n  y\nj: 7\n"
    assert [(entry.path, entry.value.strip()) for entry in scan_yaml(text)] == [
        (("a", "b"), "1"), (("a", "c", "d"), "2"), (("a", "c", "e"), "3"), (("a", "c"), "4"), (("f",), "5"),
        (("f", "g", "h"), "6"), (("i",), "x\n\n  y"), (("j",), "7"),
    ]  # fmt: skip


def test_environment_files() -> None:
    text = "# c\nexport CUDA_VISIBLE_DEVICES='1,0'\nNCCL_SOCKET_IFNAME=eth0\nA=cuda\n"
    after = text.replace("CUDA_VISIBLE_DEVICES='1,0'", "ASCEND_RT_VISIBLE_DEVICES='0,1'").replace("NCCL", "HCCL")
    assert converted_file(text, ".env") == after
    assert converted_file(text, "prod.env", target="agnostic") == text


def test_blocks_are_read_without_their_indentation() -> None:
    text = (
        "jobs:\n  a:\n    steps:\n    - run: |\n        python - <<'EOF'\n        import torch\n"
        "        if 1:\n            torch.cuda.synchronize()\n        EOF\n\n"
        "        CUDA_VISIBLE_DEVICES=0 a\n    - b: 1\n"
    )
    after = converted_file(text, ".github/workflows/a.yml")
    assert after == (
        text.replace("import torch\n", "import torch\n        import torch_npu  # noqa: F401\n")
        .replace("torch.cuda", "torch.npu")
        .replace("CUDA_VISIBLE", "ASCEND_RT_VISIBLE")
    )
    (finding,) = file_findings(text, "a.yml", "JM101")
    assert (finding.where.line, finding.where.column) == (8, 13)
    assert finding.edit is not None
    assert finding.edit.before == "            torch.cuda.synchronize()\n"


@given(st.lists(st.text(alphabet="ab \n", max_size=8), max_size=5), st.integers(0, 3))
def test_a_block_knows_where_its_characters_stand(lines: list[str], indent: int) -> None:
    text = "key: |\n" + "".join(" " * indent + line + "\n" for line in lines)
    block = Block.of(text, 7, len(text))
    assert all(text[offset] == char for char, offset in zip(block.text, block.offsets, strict=True))
    assert block.text.count("\n") == text.count("\n") - 1
    assert dedent(text[7:]).replace(" ", "") == block.text.replace(" ", "")
