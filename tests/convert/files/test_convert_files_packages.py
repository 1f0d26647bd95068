"""Requirements, package lists of configurations, Dockerfiles."""

from __future__ import annotations

import pytest
from file_cases import converted_file, file_findings, left_in_file, outcome_of_file
from hypothesis import given
from hypothesis import strategies as st

from jumar.convert.model.outcome import Skip


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch==2.1.0+cu118\nnumpy\n", "torch==2.1.0\ntorch_npu==2.1.0.*\nnumpy\n"),
        ("torch == 2.6.0  # pinned\r\nx", "torch == 2.6.0  # pinned\r\ntorch_npu==2.6.0.*\r\nx"),
        ("torch==2.1.0", "torch==2.1.0\ntorch_npu==2.1.0.*"),
        ("torchvision==0.16.0+cu121 ; python_version>'3.8'\n", "torchvision==0.16.0 ; python_version>'3.8'\n"),
        (
            "--extra-index-url https://download.pytorch.org/whl/cu118\n",
            "--extra-index-url https://download.pytorch.org/whl/cpu\n",
        ),
        ("torch==2.1.0\ntorch-npu==2.1.0.post13\n", None),
        ("torch==2.1.0+cu118 --hash=sha256:00\n", None),
        ("torch>=2.0\n", None),
        ("torch==1.13.1\n", None),
        ("torchmetrics==1.0\nnumpy==1.26+cu118\n", None),
    ],
)
def test_builds_for_cuda_and_torch_npu(before: str, after: str | None) -> None:
    assert converted_file(before, "requirements.txt") == (after or before)


def test_a_range_gets_torch_npu_only_when_asked_for() -> None:
    assert converted_file("torch>=2.0,<2.2\n", "requirements/base.txt", unsafe=True) == (
        "torch>=2.0,<2.2\ntorch_npu>=2.0,<2.2\n"
    )
    (finding,) = left_in_file("torch>=2.0\n", "requirements-dev.txt", "JM125")
    assert "not pinned" in finding.message
    assert "no release" in left_in_file("torch==1.13.1\n", "requirements.txt", "JM125")[0].message


def test_the_agnostic_target_changes_no_requirement() -> None:
    text = "torch==2.1.0+cu118\n--index-url https://download.pytorch.org/whl/cu118\n"
    assert converted_file(text, "requirements.txt", target="agnostic") == text
    assert len(left_in_file(text, "requirements.txt", "JM125", target="agnostic")) == 3


@pytest.mark.parametrize(
    "package",
    [
        "nvidia-cublas-cu12==12.1", "apex", "flash-attn>=2", "flash_attn", "bitsandbytes", "xformers==0.0.20", "triton",
        "cupy-cuda12x", "onnxruntime-gpu", "tensorrt", "nvidia-dali-cuda120", "faiss-gpu", "jax[cuda12]", "pynvml",
        "transformer-engine[pytorch]",
    ],
)  # fmt: skip
def test_packages_for_cuda_are_reported_with_their_counterpart(package: str) -> None:
    (finding,) = left_in_file(f"numpy\n{package}\n", "requirements.txt", "JM125")
    assert finding.where.line == 2
    assert finding.action.startswith("On an NPU: ")


def test_pyproject_lists_are_converted_inside_their_brackets() -> None:
    tomllib = pytest.importorskip("tomllib")
    text = (
        '[project]\ndependencies = [\n    "torch==2.1.0",  # core\n    "numpy",\n]\n'
        '[project.optional-dependencies]\nx = ["xformers"]\n'
    )
    after = converted_file(text, "pyproject.toml")
    assert tomllib.loads(after)["project"]["dependencies"] == ["torch==2.1.0", "torch_npu==2.1.0.*", "numpy"]
    assert after.replace(', "torch_npu==2.1.0.*"', "") == text
    assert [finding.where.line for finding in left_in_file(text, "pyproject.toml", "JM125")] == [7]


def test_setup_cfg_and_conda_environments() -> None:
    text = "[options]\ninstall_requires =\n    torch==2.1.0\n    apex\n"
    assert converted_file(text, "setup.cfg") == text.replace("torch==2.1.0\n", "torch==2.1.0\n    torch_npu==2.1.0.*\n")
    conda = (
        "name: x\nchannels:\n  - nvidia\n  - pytorch\ndependencies:\n  - python=3.10\n  - pytorch=2.1\n"
        "  - pytorch-cuda=11.8\n  - cudatoolkit=11.3\n  - pip:\n    - torch==2.1.0+cu118\n    - xformers\n"
    )
    after = converted_file(conda, "environment.yml")
    assert after == conda.replace("torch==2.1.0+cu118\n", "torch==2.1.0\n    - torch_npu==2.1.0.*\n")
    assert [finding.where.line for finding in left_in_file(conda, "environment.yml", "JM125")] == [3, 7, 8, 9, 12]


DOCKERFILE = """\
# FROM nvidia/cuda:1
ARG BASE=nvidia/cuda:12.1.0-devel-ubuntu22.04
FROM --platform=linux/amd64 pytorch/pytorch:2.1.0-cuda12.1-cudnn8-devel AS base
FROM ubuntu:22.04
ENV CUDA_VISIBLE_DEVICES=1,0 NVIDIA_VISIBLE_DEVICES=all \\
    CUDA_LAUNCH_BLOCKING=1
ENV NCCL_SOCKET_IFNAME eth0
RUN pip install torch==2.1.0+cu118 \\
    # a comment
    --index-url https://download.pytorch.org/whl/cu118 && \\
    CUDA_VISIBLE_DEVICES=0 python a.py --device cuda
RUN <<EOF
CUDA_VISIBLE_DEVICES=0 python b.py
EOF
CMD ["python", "a.py"]
"""


def test_dockerfiles() -> None:
    after = converted_file(DOCKERFILE, "docker/Dockerfile.gpu")
    assert after == (
        DOCKERFILE.replace("CUDA_VISIBLE_DEVICES=1,0", "ASCEND_RT_VISIBLE_DEVICES=0,1")
        .replace("CUDA_VISIBLE_DEVICES=0", "ASCEND_RT_VISIBLE_DEVICES=0")
        .replace("CUDA_LAUNCH", "ASCEND_LAUNCH")
        .replace("NCCL_SOCKET", "HCCL_SOCKET")
        .replace("2.1.0+cu118", "2.1.0")
        .replace("whl/cu118", "whl/cpu")
        .replace("--device cuda", "--device npu")
    )
    found = left_in_file(DOCKERFILE, "Dockerfile", "JM124")
    assert [finding.where.line for finding in found] == [2, 3]
    assert "quay.io/ascend/cann" in found[0].action
    (variable,) = left_in_file(DOCKERFILE, "Dockerfile", "JM120")
    assert "ASCEND_VISIBLE_DEVICES" in variable.action


def test_the_old_form_of_env_gets_no_second_variable() -> None:
    text = "FROM x\nENV CUDA_VISIBLE_DEVICES 0\nENV CUDA_LAUNCH_BLOCKING=1\n"
    after = converted_file(text, "Dockerfile", target="agnostic")
    assert after == text.replace("BLOCKING=1", "BLOCKING=1 ASCEND_LAUNCH_BLOCKING=1")


def test_texts_that_are_no_requirements_are_only_copied() -> None:
    from jumar.convert.files import kind_of

    assert kind_of("notes.txt", b"torch==2.1.0+cu118") is None
    assert isinstance(outcome_of_file("numpy\nscipy\n", "requirements.txt"), Skip)


@given(
    st.lists(
        st.sampled_from(
            ["torch==2.1.0+cu118", "torch", ">=2", "\n", "\\\n", "#", " ", "-r x", "apex", "\r\n", "[", ";"]
        ),
        max_size=14,
    )
)
def test_any_requirements_are_converted_once(parts: list[str]) -> None:
    data = "".join(parts).encode()
    for name in ("requirements.txt", "Dockerfile"):
        once = outcome_of_file(data, name, unsafe=True).after
        assert outcome_of_file(once, name, unsafe=True).after == once


@given(st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8"), max_size=80))
def test_any_dockerfile_is_taken(text: str) -> None:
    data = f"FROM cuda\nRUN {text}\nENV {text}".encode("utf-8", "surrogatepass")
    assert file_findings("FROM nvidia/cuda:1\n", "Dockerfile", "JM124")
    outcome_of_file(data, "Dockerfile")
