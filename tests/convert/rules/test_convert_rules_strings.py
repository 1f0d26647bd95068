"""Device strings, backends, environment variables: what is renamed, and what only looks like it."""

from __future__ import annotations

import pytest
from convert_cases import converted, findings, left, outcome

from jumar.base.findings import Severity

TORCH = "import torch\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.to('cuda')", "x.to('npu')"),
        ('x.to(device="cuda:0")', 'x.to(device="npu:0")'),
        ("x.to(f'cuda:{i}')", "x.to(f'npu:{i}')"),
        ("x.to(f'cuda')", "x.to(f'npu')"),
        ("x.to(rf\"\"\"cuda:{i + 1}\"\"\")", "x.to(rf\"\"\"npu:{i + 1}\"\"\")"),
        ("x.to('cuda:' + str(i))", "x.to('npu:' + str(i))"),
        ("x.to('cuda:%d' % i)", "x.to('npu:%d' % i)"),
        ("x.to('cuda:{}'.format(i))", "x.to('npu:{}'.format(i))"),
        ("loc = 'cuda:%s' % (i if i else next(it))", "loc = 'npu:%s' % (i if i else next(it))"),
        ("torch.device('cuda', 0)", "torch.device('npu', 0)"),
        ("torch.device(type='cuda', index=0)", "torch.device(type='npu', index=0)"),
        ("torch.zeros(3, device='cuda')", "torch.zeros(3, device='npu')"),
        ("torch.load(p, map_location='cuda')", "torch.load(p, map_location='npu')"),
        ("torch.set_default_tensor_type('torch.cuda.FloatTensor')",
         "torch.set_default_tensor_type('torch.npu.FloatTensor')"),
        ("torch.Generator('cuda')", "torch.Generator('npu')"),
        ("device = 'cuda'", "device = 'npu'"),
        ("DEVICE = 'cuda'", "DEVICE = 'npu'"),
        ("self.device = 'cuda'", "self.device = 'npu'"),
        ("cfg['device'] = 'cuda'", "cfg['device'] = 'npu'"),
        ("cfg = {'device': 'cuda'}", "cfg = {'device': 'npu'}"),
        ("cfg = dict(device='cuda')", "cfg = dict(device='npu')"),
        ("def f(x, device='cuda'): ...", "def f(x, device='npu'): ..."),
        ("def f(d): ...\nf('cuda:1')", "def f(d): ...\nf('npu:1')"),
        ("def f(x, device): ...\nf(1, 'cuda')", "def f(x, device): ...\nf(1, 'npu')"),
        ("class A:\n    def __init__(self, device): ...\nA('cuda')",
         "class A:\n    def __init__(self, device): ...\nA('npu')"),
        ("place = 'cuda' if ok else 'cpu'", "place = 'npu' if ok else 'cpu'"),
        ("for d in ['cpu', 'cuda']: run(d)", "for d in ['cpu', 'npu']: run(d)"),
        ("x = args.device or 'cuda'\nx.to(device=x)", "x = args.device or 'cuda'\nx.to(device=x)"),
        ("def get_device():\n    return 'cuda'", "def get_device():\n    return 'npu'"),
        ("def pick(x):\n    if x: return 'cuda'\n    return 'cpu'",
         "def pick(x):\n    if x: return 'npu'\n    return 'cpu'"),
        ("class A:\n    device: str = field(default='cuda')", "class A:\n    device: str = field(default='npu')"),
        ("p.add_argument('--device', default='cuda:0')", "p.add_argument('--device', default='npu:0')"),
        ("p.add_argument('--on', default='cuda', choices=['cuda', 'cpu'])",
         "p.add_argument('--on', default='npu', choices=['npu', 'cpu'])"),
        ("@click.option('--device', default='cuda')\ndef f(device): ...",
         "@click.option('--device', default='npu')\ndef f(device): ..."),
    ],
)  # fmt: skip
def test_a_device_string_is_renamed(before: str, after: str) -> None:
    assert converted(TORCH + before + "\n") == TORCH + after + "\n"


@pytest.mark.parametrize(
    "source",
    [
        "x = '/data/cuda/checkpoint.pt'",
        "print('no cuda here')",
        "print(f'cuda:{x} is busy')",
        "log.info('cuda')",
        "x = {'cuda': 1}",
        "x['cuda']",
        "x.get('cuda', 0)",
        "hasattr(x, 'cuda')",
        "impl = 'cuda'",
        "build(lang='cuda')",
        "def f(backend='cuda'): ...",
        "x = b'cuda'",
        "x = 'cuda:0,1'",
        "x = 'cuda_ext'",
        "f(cuda=True)",
        "if args.cuda: pass",
        "'''cuda'''",
        "use_cuda = True",
        "torch.load(p, map_location={'cuda:0': 'cpu'})",
    ],
)
def test_a_string_or_name_that_only_contains_cuda_stays(source: str) -> None:
    assert converted(TORCH + source + "\n", unsafe=True).replace(", map_location='cpu'", "") == TORCH + source + "\n"


@pytest.mark.parametrize("source", ["f('cuda')", "x = 'cuda'", "def f():\n    return 'cuda'", "if x == 'cuda': pass"])
def test_where_the_place_does_not_tell_the_edit_is_unsafe(source: str) -> None:
    assert converted(source + "\n") == source + "\n"
    assert converted(source + "\n", unsafe=True) == source.replace("cuda", "npu") + "\n"
    assert [finding.edit.safety for finding in outcome(source).findings if finding.edit] == ["unsafe"]


def test_an_option_with_an_unusual_name_is_followed_to_its_comparisons() -> None:
    before = "p.add_argument('--where-to', choices=['cuda', 'cpu'])\nif args.where_to == 'cuda': go()\n"
    assert converted(before) == before.replace("'cuda'", "'npu'")


def test_a_renamed_option_value_asks_its_callers_to_follow() -> None:
    (finding,) = findings("p.add_argument('--device', default='cuda')\n", "JM102")
    assert finding.severity is Severity.ADVICE


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("dist.init_process_group('nccl')", "dist.init_process_group('hccl')"),
        ("dist.init_process_group(backend='nccl', rank=r)", "dist.init_process_group(backend='hccl', rank=r)"),
        ("dist.new_group(ranks, backend=\"nccl\")", "dist.new_group(ranks, backend=\"hccl\")"),
        ("p.add_argument('--dist-backend', default='nccl', choices=['nccl', 'gloo'])",
         "p.add_argument('--dist-backend', default='hccl', choices=['hccl', 'gloo'])"),
        ("backend = 'nccl' if ok else 'gloo'", "backend = 'hccl' if ok else 'gloo'"),
        ("if args.backend == 'nccl': go()", "if args.backend == 'hccl': go()"),
        ("x = 'cpu:gloo,cuda:nccl'", "x = 'cpu:gloo,npu:hccl'"),
        ("x = 'NCCL'", "x = 'HCCL'"),
    ],
)  # fmt: skip
def test_nccl_becomes_hccl(before: str, after: str) -> None:
    assert converted(before + "\n") == after + "\n"


@pytest.mark.parametrize(
    "source", ["x['nccl']", "x = {'nccl': 1}", "print('nccl')", "x = 'nccl tests'", "x = f'nccl{y}'"]
)
def test_what_is_not_the_backend_stays(source: str) -> None:
    assert converted(source + "\n", unsafe=True) == source + "\n"


def test_asking_for_nccl_itself_is_reported() -> None:
    source = "import torch.distributed as dist\ndist.Backend.NCCL.lower()\nx = dist.is_nccl_available\n"
    assert converted(source) == source
    assert len(left(source, "JM105")) == 2


def test_whether_nccl_is_there_becomes_whether_hccl_is() -> None:
    source = "import torch.distributed as dist\nok = dist.is_nccl_available()\n"
    assert converted(source) == source.replace("is_nccl_available()", "is_backend_available('hccl')")


@pytest.mark.parametrize(
    ("name", "new"),
    [("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"), ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NPU_ALLOC_CONF")],
)
def test_environment_variables_change_only_when_unsafe_edits_are_asked_for(name: str, new: str) -> None:
    source = f"import os\nos.environ['{name}'] = v\n"
    assert converted(source) == source
    assert converted(source, unsafe=True) == source.replace(name, new)


def test_an_environment_variable_without_counterpart_is_reported() -> None:
    (finding,) = left("import os\nos.environ['CUBLAS_WORKSPACE_CONFIG'] = ':4096:8'\n", "JM109")
    assert "no effect" in finding.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("p.key_averages().table(sort_by='cuda_time_total')", "p.key_averages().table(sort_by='device_time_total')"),
        ("p.key_averages().table(sort_by='self_cuda_memory_usage')",
         "p.key_averages().table(sort_by='self_device_memory_usage')"),
    ],
)  # fmt: skip
def test_profiler_columns_get_their_device_neutral_name(before: str, after: str) -> None:
    assert converted(before + "\n") == after + "\n"


def test_profiling_cuda_is_reported() -> None:
    source = (
        "import torch\nwith torch.autograd.profiler.profile(use_cuda=True): x()\ntorch.profiler.ProfilerActivity.CUDA\n"
    )
    assert converted(source) == source
    assert len(left(source, "JM117")) == 2
    assert "use_device='npu'" in converted(source, unsafe=True)
