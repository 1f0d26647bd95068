"""CUDA and C++ sources, documents, and what all kinds refuse."""

from __future__ import annotations

import pytest
from file_cases import file_findings, outcome_of_file
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.findings import Severity
from jumar.convert.files import kind_of, kinds
from jumar.convert.files.cuda_source import bound_operators, without_comments
from jumar.convert.model.outcome import Outcome, Skip
from jumar.convert.rules.tree.unused_ignore import RULE as UNUSED

BINDINGS = """\
#include <torch/extension.h>  // cuda
/* m.def("not_this", &x); */
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("bias_act", &bias_act, "with { braces }");
  m.def(
      "backward",
      &backward);
  py::class_<Foo>(m, "Foo").def(py::init<>()).def("run", &Foo::run);
}
void f() { other.def("outside"); }
"""


def test_bindings_over_many_lines() -> None:
    (finding,) = file_findings(BINDINGS, "ops.cpp", "JM126")
    assert finding.evidence["operators"] == ["bias_act", "backward", "run"]
    assert finding.where.line == 3
    assert "bias_act_ref" in finding.action


def test_one_line_bindings_and_registered_libraries() -> None:
    text = (
        'PYBIND11_MODULE(x, m) { m.def("nms_cuda", &nms); }\n'
        'TORCH_LIBRARY(my, m) { m.def("roi(Tensor x, int n) -> Tensor");\n'
        '  m.def(TORCH_SELECTIVE_SCHEMA("my::pool(Tensor x) -> Tensor")); }\n'
        'TORCH_LIBRARY_IMPL(my, CUDA, m) { m.impl("roi", &roi); }\n'
    )
    (finding,) = file_findings(text, "a.cc", "JM126")
    assert finding.evidence["operators"] == ["nms_cuda", "roi", "pool"]
    assert finding.evidence["libraries"] == ["my"]


def test_kernels_of_cuda_sources() -> None:
    text = "template <typename T>\n__global__ void __launch_bounds__(512) scan_kernel(T* x) {}\n//__global__ void a()\n"
    (finding,) = file_findings(text, "k.cu", "JM126")
    assert finding.evidence["kernels"] == ["scan_kernel"]
    assert finding.severity is Severity.WARNING
    assert not outcome_of_file(text, "k.cu").changed


def test_sources_that_have_nothing_to_do_with_cuda_are_only_copied() -> None:
    assert kind_of("a.cpp", b"int main() { return cuda; }") is None
    assert kind_of("a.cpp", b'PYBIND11_MODULE(x, m) { m.def("f", &f); }') is None


@given(st.text(alphabet="PYBIND11_MODULE(x){}\"'/*\n.def m", max_size=80))
def test_any_source_is_taken(text: str) -> None:
    assert len(without_comments(text)) == len(text)
    bound_operators(f"PYBIND11_MODULE(x, m) {text}")


README = """\
# Use
Run `--device cuda` or
```bash
$ CUDA_VISIBLE_DEVICES=1,0 python train.py \\
    --device cuda
# on CUDA
NCCL_DEBUG=INFO python train.py
```
```python
x.cuda()
```
"""


def test_documented_commands_are_shown_and_never_changed() -> None:
    found = file_findings(README, "README.md", "JM127")
    assert [finding.where.line for finding in found] == [4, 5]
    assert {finding.severity for finding in found} == {Severity.INFO}
    assert found[0].edit is not None
    assert found[0].edit.after.startswith("$ ASCEND_RT_VISIBLE_DEVICES=0,1 python")
    assert found[0].edit.safety == "display-only"
    assert outcome_of_file(README, "README.md").after == README.encode()
    assert not outcome_of_file(README, "README.md", unsafe=True).changed


def test_blocks_of_restructured_text() -> None:
    text = "Run::\n\n    python a.py --device cuda\n\n.. code-block:: bash\n\n   nvidia-smi\n\nor a.py --device cuda\n"
    assert [finding.where.line for finding in file_findings(text, "a.rst", "JM127")] == [3, 7]


NAMES = [
    *("a.sh", "Makefile", "Dockerfile", "requirements.txt", "a.yaml", "a.json", "a.toml", "a.ini", "a.cu", "a.md"),
    *("a.rst", "a.ipynb", "setup.cfg", "pyproject.toml", "environment.yml"),
]


def convert_bytes(data: bytes, name: str) -> Outcome | None:
    from jumar.convert.engine.file import convert_file

    return convert_file(data, name)


@pytest.mark.parametrize("name", NAMES)
def test_binary_and_huge_files_are_of_no_kind(name: str) -> None:
    assert kind_of(name, b"cuda\0\x01") is None
    assert kind_of(name, b"cuda " * (14 << 20)) is None
    assert kind_of(name, b"cuda") is not None


@given(st.binary(max_size=120), st.sampled_from(NAMES))
def test_any_bytes_are_taken_and_what_is_not_edited_stays(data: bytes, name: str) -> None:
    found = convert_bytes(data, name)
    if found is not None and found.num_edits == 0:
        assert found.after == data


@given(st.text(alphabet="abc:=\n- \"'{}[],#|$\\é", max_size=60), st.sampled_from(NAMES))
def test_texts_without_cuda_are_left_alone(text: str, name: str) -> None:
    found = convert_bytes(text.encode(), name)
    assert found is not None
    assert isinstance(found, Skip) or name in ("a.cu", "a.ipynb")
    assert found.after == text.encode()


def test_kinds_have_names_of_their_own() -> None:
    assert len({kind.name for kind in kinds()}) == len(kinds())


def test_comments_keep_lines_from_being_changed_and_reported() -> None:
    text = (
        "CUDA_VISIBLE_DEVICES=0 a  # jumar: ignore\n# jumar: ignore[JM120]\nCUDA_VISIBLE_DEVICES=0 a\n"
        "CUDA_VISIBLE_DEVICES=0 a  # jumar: ignore[JM121]\n"
    )
    found = outcome_of_file(text, "a.sh")
    assert found.after.decode() == "".join(
        [*text.splitlines(keepends=True)[:3], text.splitlines(keepends=True)[3].replace("CUDA", "ASCEND_RT", 1)]
    )
    assert [(finding.where.line, finding.code) for finding in found.findings] == [(4, "JM120"), (4, UNUSED.code)]
    assert isinstance(outcome_of_file("device: cuda  # jumar: ignore[jm123]\n", "a.yml"), Skip)
    assert isinstance(outcome_of_file("# jumar: ignore-file\ndevice: cuda\n", "a.yml"), Skip)


def test_rules_that_are_left_out_say_and_do_nothing() -> None:
    from jumar.convert.engine.file import convert_file
    from jumar.convert.model.options import ConvertOptions

    options = ConvertOptions(disable=frozenset({"JM120"}))
    found = convert_file(b"CUDA_VISIBLE_DEVICES=0 a --device cuda\n", "a.sh", options)
    assert found is not None
    assert found.after == b"CUDA_VISIBLE_DEVICES=0 a --device npu\n"
