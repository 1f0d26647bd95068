"""Forms that converters miss or break: names by string, tables, patterns, types, own methods, other files' words."""

from __future__ import annotations

import pytest
from convert_cases import IMPORT, agnostic, converted, findings, left

from jumar.convert import ConvertOptions, convert_source
from jumar.convert.model.project import ProjectFacts

TORCH = "import torch\n"


@pytest.mark.parametrize(
    ("before", "npu", "neutral"),
    [
        ("x = getattr(torch, 'cuda')", "x = getattr(torch, 'npu')", "x = getattr(torch, DEVICE_TYPE)"),
        ("if hasattr(torch, 'cuda'): ...", "if hasattr(torch, 'npu'): ...", "if hasattr(torch, DEVICE_TYPE): ..."),
        ("x = getattr(torch.cuda, 'CUDAGraph')", "x = getattr(torch.npu, 'NPUGraph')", None),
        ("import importlib\nx = importlib.import_module('torch.cuda')",
         "import importlib\nx = importlib.import_module('torch.npu')",
         "import importlib\nx = importlib.import_module(f'torch.{DEVICE_TYPE}')"),
        ("if 'CUDA out of memory' in str(e): ...", "if 'out of memory' in str(e): ...",
         "if 'out of memory' in str(e): ..."),
        ("if re.search('CUDA out of memory', s): ...", "if re.search('out of memory', s): ...",
         "if re.search('out of memory', s): ..."),
        ("if 'cuda out of memory' not in s.lower(): ...", "if 'out of memory' not in s.lower(): ...",
         "if 'out of memory' not in s.lower(): ..."),
        ("y = {'cuda': 1, 'cpu': 2}[x.device.type]", "y = {'npu': 1, 'cpu': 2}[x.device.type]",
         "y = {DEVICE_TYPE: 1, 'cpu': 2}[x.device.type]"),
        ("y = {'cuda': 1, 'cpu': 2}.get(device)", "y = {'npu': 1, 'cpu': 2}.get(device)",
         "y = {DEVICE_TYPE: 1, 'cpu': 2}.get(device)"),
        ("T = {'cuda': 1, 'cpu': 2}\ny = T[str(device)]", "T = {'npu': 1, 'cpu': 2}\ny = T[str(device)]",
         "T = {DEVICE_TYPE: 1, 'cpu': 2}\ny = T[str(device)]"),
        ("match x.device.type:\n    case 'cuda': ...", "match x.device.type:\n    case 'npu': ...",
         "match x.device.type:\n    case 'cuda' | 'npu': ..."),
        ("from typing import Literal\ndef f(device: Literal['cuda', 'cpu'] = 'cuda'): ...",
         "from typing import Literal\ndef f(device: Literal['npu', 'cpu'] = 'npu'): ...",
         "from typing import Literal\ndef f(device: Literal['cuda', 'npu', 'cpu'] = DEVICE_TYPE): ..."),
        ("device = 'cuda' + ':' + str(i)", "device = 'npu' + ':' + str(i)", "device = DEVICE_TYPE + ':' + str(i)"),
        ("f('cuda' + f':{i}')", "f('npu' + f':{i}')", "f(DEVICE_TYPE + f':{i}')"),
        ("y = f\"{'cuda' if a else 'cpu'}\"", "y = f\"{'npu' if a else 'cpu'}\"",
         "y = f\"{DEVICE_TYPE if a else 'cpu'}\""),
        ("with torch.autograd.profiler.profile() as p: ...\nt = p.total_average().self_cuda_time_total",
         "with torch.autograd.profiler.profile() as p: ...\nt = p.total_average().self_device_time_total",
         "with torch.autograd.profiler.profile() as p: ...\nt = p.total_average().self_device_time_total"),
        ("f = torch.zeros(1).cuda\nf()", "f = torch.zeros(1).npu\nf()", None),
        ("f = x.cuda\ny = f(0)", "f = x.npu\ny = f(0)", None),
        ("f = args.cuda\nif f: ...", "f = args.cuda\nif f: ...", "f = args.cuda\nif f: ..."),
    ],
)  # fmt: skip
def test_a_form_that_others_miss(before: str, npu: str, neutral: str | None) -> None:
    assert converted(TORCH + before + "\n") == TORCH + npu + "\n"
    if neutral is not None:
        assert agnostic(TORCH + before + "\n") == TORCH + neutral + "\n"


@pytest.mark.parametrize(
    "source",
    [
        "class K(enum.Enum):\n    CUDA = 1\nx = K.CUDA",
        "def cuda(x): return x\ny = cuda(x)",
        "def f(cuda): return cuda",
        "class Batch:\n    def cuda(self): return self\nclass Sub(Batch): ...\nx = Sub()\nx.cuda()",
        "class Batch:\n    def cuda(self): return self\n    def go(self): return self.cuda()",
        "getattr(x, 'cuda')()",
        "T = {'cuda': 1, 'cpu': 2}\nprint(T)",
        "x = {'cuda': 1}['gpu']",
        "match command:\n    case 'cuda': ...",
        "torch.zeros(3).to(0)  # not cuda by name",
        "torch.device(0)  # not cuda by name",
        "parser.add_argument('--backend', choices=['cuda', 'cpu'])\nif args.backend == 'cuda': ...",
        "print(torch.version.cuda)",
        "torch._C._cuda_init()",
        "raise RuntimeError('CUDA out of memory')",
    ],
)
def test_what_is_not_a_device_or_not_torchs_stays_in_both_targets(source: str) -> None:
    assert converted(TORCH + source + "\n") == TORCH + source + "\n"
    assert agnostic(TORCH + source + "\n") == TORCH + source + "\n"


def test_a_table_that_is_read_by_devices_needs_its_key_before_the_cpus_for_any_accelerator() -> None:
    source = TORCH + "y = {'cpu': 2, 'cuda': 1}[device]\n"
    assert agnostic(source) == source
    assert converted(source) == source.replace("cuda", "npu")


def test_a_name_in_getattr_without_counterpart_is_reported() -> None:
    source = TORCH + "x = getattr(torch.cuda, 'cudart')\n"
    assert converted(source) == source.replace("torch.cuda", "torch.npu")
    assert len(left(source, "JM119")) == 1


def test_an_option_keeps_its_words_where_its_reader_chooses_an_implementation() -> None:
    source = "p.add_argument('--backend', default='cuda')\nif args.backend == 'cuda': ...\n"
    assert converted(source, unsafe=True) == source
    assert len(findings(source, "JM108")) == 1


OPTION = "p.add_argument('--device', default='cuda')\nif args.device == 'cuda': ...\nx = {'device': 'cuda'}\n"


@pytest.mark.parametrize(("words", "changes"), [({"device": False}, False), ({"device": True}, True), ({}, True)])
def test_words_of_an_option_change_in_every_file_or_in_none(words: dict[str, bool], changes: bool) -> None:
    found = convert_source(OPTION, "a.py", ConvertOptions(), ProjectFacts(words=words))
    after = found.after.decode().replace(IMPORT, "")
    assert after == (OPTION.replace("'cuda'", "'npu'") if changes else OPTION)


def test_a_word_without_a_device_name_changes_when_the_project_says_so() -> None:
    source = "p.add_argument('--where-to', default='cuda')\n"
    found = convert_source(source, "a.py", ConvertOptions(), ProjectFacts(words={"where_to": True}))
    assert found.after.decode() == source.replace("'cuda'", "'npu'")


def test_a_backend_option_keeps_its_words_when_the_project_says_so() -> None:
    source = "p.add_argument('--dist-backend', default='nccl')\n"
    found = convert_source(source, "a.py", ConvertOptions(), ProjectFacts(words={"dist-backend": False}))
    assert found.after.decode() == source
