"""`--target agnostic`: one form at a time, before and after; converting the result again changes nothing."""

from __future__ import annotations

import pytest
from convert_cases import agnostic, outcome

from jumar.convert.model.api_map import table
from jumar.convert.targets.agnostic.accelerator_names import as_counterpart

TORCH = "import torch\n"
MODULE = "torch.get_device_module(DEVICE_TYPE)"
AVAILABLE = "torch.accelerator.is_available()"
BACKEND = "torch.distributed.get_default_backend_for_device(DEVICE_TYPE)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = torch.device('cuda')", "x = torch.device(DEVICE_TYPE)"),
        ("x = torch.device('cuda', i)", "x = torch.device(DEVICE_TYPE, i)"),
        ("x = torch.device(type='cuda', index=0)", "x = torch.device(type=DEVICE_TYPE, index=0)"),
        ("x = torch.device('cuda:0')", "x = torch.device(f'{DEVICE_TYPE}:0')"),
        ("x = torch.device(u'cuda:0')", "x = torch.device(f'{DEVICE_TYPE}:0')"),
        ("x = torch.device(r'cuda:0')", "x = torch.device(fr'{DEVICE_TYPE}:0')"),
        ('x = torch.device("""cuda:0""")', 'x = torch.device(f"""{DEVICE_TYPE}:0""")'),
        ("x = torch.device(f'cuda')", "x = torch.device(DEVICE_TYPE)"),
        ("x = torch.device(f'cuda:{rank}')", "x = torch.device(f'{DEVICE_TYPE}:{rank}')"),
        ("x = torch.device(f'cuda:{rank:d}')", "x = torch.device(f'{DEVICE_TYPE}:{rank:d}')"),
        ("x = torch.device('cuda:%d' % rank)", "x = torch.device(f'{DEVICE_TYPE}:%d' % rank)"),
        ("x = torch.device('cuda:{}'.format(rank))", "x = torch.device(f'{DEVICE_TYPE}:{{}}'.format(rank))"),
        ("x = torch.device('cuda:{0}'.format(rank))", "x = torch.device(f'{DEVICE_TYPE}:{{0}}'.format(rank))"),
        ("x = torch.device('cuda:' + str(rank))", "x = torch.device(f'{DEVICE_TYPE}:' + str(rank))"),
        ("print(f\"{torch.device('cuda')}\")", "print(f\"{torch.device(DEVICE_TYPE)}\")"),
        ("def f(device='cuda'): ...", "def f(device=DEVICE_TYPE): ..."),
        ("device = 'cuda' if ok else 'cpu'", "device = DEVICE_TYPE if ok else 'cpu'"),
        ("device = 'cpu' if no else'cuda'", "device = 'cpu' if no else DEVICE_TYPE"),
        ("device = 'cuda'if ok else 'cpu'", "device = DEVICE_TYPE if ok else 'cpu'"),
        ("def device():\n    return'cuda:0'", "def device():\n    return f'{DEVICE_TYPE}:0'"),
        ("class C:\n    device = 'cuda'", "class C:\n    device = DEVICE_TYPE"),
        ("x = {'device': 'cuda'}", "x = {'device': DEVICE_TYPE}"),
        ("p.add_argument('--device', default='cuda', choices=['cuda', 'cpu'])",
         "p.add_argument('--device', default=DEVICE_TYPE, choices=[DEVICE_TYPE, 'cpu'])"),
        ("@click.option('--device', default='cuda')\ndef f(device): ...",
         "@click.option('--device', default=DEVICE_TYPE)\ndef f(device): ..."),
        ("torch.load(p, map_location='cuda:0')",
         "torch.load(p, map_location=f'{DEVICE_TYPE}:0' if DEVICE_TYPE != 'cpu' else 'cpu')"),
        ("torch.load(p, map_location={'cuda:0': 'cuda:%d' % rank})",
         "torch.load(p, map_location={'cuda:0': f'{DEVICE_TYPE}:%d' % rank if DEVICE_TYPE != 'cpu' else 'cpu'})"),
        ("torch.load(p, map_location='cuda:%d' % next(ranks))",
         "torch.load(p, map_location=f'{DEVICE_TYPE}:%d' % next(ranks))"),
        ("torch.load(p, map_location=lambda storage, loc: storage.cuda(0))",
         "torch.load(p, map_location=lambda storage, loc: storage.to(device=torch.device(DEVICE_TYPE, 0)))"),
        ("if (device := 'cuda'): ...", "if (device := DEVICE_TYPE): ..."),
        ("torch.set_default_device('cuda')", "torch.set_default_device(DEVICE_TYPE)"),
    ],
)  # fmt: skip
def test_a_device_string_becomes_an_expression_on_one_variable(before: str, after: str) -> None:
    assert agnostic(TORCH + before + "\n") == TORCH + after + "\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if x.is_cuda: ...", "if x.device.type != 'cpu': ..."),
        ("y = [t.is_cuda for t in x]", "y = [t.device.type != 'cpu' for t in x]"),
        ("y = not x.is_cuda", "y = not x.device.type != 'cpu'"),
        ("y = a.is_cuda == b.is_cuda", "y = (a.device.type != 'cpu') == (b.device.type != 'cpu')"),
        ("y = x.is_cuda + 1", "y = (x.device.type != 'cpu') + 1"),
        ("y = x.is_cuda and z", "y = x.device.type != 'cpu' and z"),
        ("print(f'{x.is_cuda}')", "print(f'{x.device.type != \"cpu\"}')"),
        ("y = pop().is_cuda", "y = pop().device.type != 'cpu'"),
        ("if x.device.type == 'cuda': ...", "if x.device.type != 'cpu': ..."),
        ("if x.device.type != 'cuda': ...", "if x.device.type == 'cpu': ..."),
        ("if x.device.type ==  ( 'cuda' ): ...", "if x.device.type !=  ( 'cpu' ): ..."),
        ("if (x.device.type  # ==\n    == 'cuda'): ...", "if (x.device.type  # ==\n    != 'cpu'): ..."),
        ("if d.type == 'cuda':\n    f()\nelif d.type == 'mps':\n    g()",
         "if d.type == 'cuda':\n    f()\nelif d.type == 'mps':\n    g()"),
        ("if x.device.type=='cuda':\n    f()\nelif x.device.type == 'mps':\n    g()",
         "if x.device.type not in ('cpu', 'mps'):\n    f()\nelif x.device.type == 'mps':\n    g()"),
        ("if x.device.type == 'mps':\n    f()\nelif x.device.type != 'cuda':\n    g()",
         "if x.device.type == 'mps':\n    f()\nelif x.device.type in ('cpu', 'mps'):\n    g()"),
        ("if device == 'cuda': ...", "if device == DEVICE_TYPE != 'cpu': ..."),
        ("if 'cuda' == device: ...", "if 'cpu' != DEVICE_TYPE == device: ..."),
        ("if device != 'cuda': ...", "if not device == DEVICE_TYPE != 'cpu': ..."),
        ("if 'cuda' in device: ...", "if 'cpu' != DEVICE_TYPE in device: ..."),
        ("y = 1 if'cuda' in device else 2", "y = 1 if'cpu' != DEVICE_TYPE in device else 2"),
        ("if 'cuda' in str(next(xs).device): ...",
         "if DEVICE_TYPE in str(next(xs).device) and DEVICE_TYPE != 'cpu': ..."),
        ("if 'cuda' not in str(next(xs).device): ...",
         "if DEVICE_TYPE not in str(next(xs).device) or DEVICE_TYPE == 'cpu': ..."),
        ("y = a and 'cuda' in str(f().device)", "y = a and (DEVICE_TYPE in str(f().device) and DEVICE_TYPE != 'cpu')"),
        ("if 'cuda' not in device: ...", "if not 'cpu' != DEVICE_TYPE in device: ..."),
        ("y = 1 if'cuda'not in device else 2", "y = 1 if not 'cpu' != DEVICE_TYPE in device else 2"),
        ("if device in ('cuda', 'mps'): ...", "if 'cpu' != device in (DEVICE_TYPE, 'mps'): ..."),
        ("if device not in ('cuda', 'mps'): ...", "if not 'cpu' != device in (DEVICE_TYPE, 'mps'): ..."),
        ("if device in ['cuda', 'cpu']: ...", "if device in [DEVICE_TYPE, 'cpu']: ..."),
        ("if device == 'cuda:0': ...", "if device == f'{DEVICE_TYPE}:0': ..."),
        ("if device.startswith('cuda'): ...", "if device.startswith(DEVICE_TYPE) and DEVICE_TYPE != 'cpu': ..."),
        ("if not device.startswith('cuda'): ...",
         "if not (device.startswith(DEVICE_TYPE) and DEVICE_TYPE != 'cpu'): ..."),
        ("if x.device == torch.device('cuda'): ...",
         "if x.device == torch.device(DEVICE_TYPE) != torch.device('cpu'): ..."),
        ("if torch.cuda.is_available(): ...", f"if {AVAILABLE}: ..."),
    ],
)  # fmt: skip
def test_a_guard_is_false_on_a_cpu_and_true_on_an_accelerator(before: str, after: str) -> None:
    assert agnostic(TORCH + before + "\n") == TORCH + after + "\n"


@pytest.mark.parametrize(
    "guard",
    ["use_fused = fused_available and device_type == 'cuda'", "if x.is_cuda: y = bias_act_cuda(x)"],
)
def test_a_guard_of_a_cuda_only_kernel_stays(guard: str) -> None:
    assert agnostic(TORCH + guard + "\n") == TORCH + guard + "\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.cuda()", "x.to(DEVICE_TYPE)"),
        ("x.cuda( )", "x.to( DEVICE_TYPE)"),
        ("x.cuda(non_blocking=True)", "x.to(DEVICE_TYPE, non_blocking=True)"),
        ("x.cuda(**k)", "x.to(DEVICE_TYPE, **k)"),
        ("x.cuda(0)", "x.to(torch.device(DEVICE_TYPE, 0))"),
        ("x.cuda(args.gpu, non_blocking=True)", "x.to(torch.device(DEVICE_TYPE, args.gpu), non_blocking=True)"),
        ("x.cuda(args.gpu, True)", "x.to(torch.device(DEVICE_TYPE, args.gpu), non_blocking=True)"),
        ("x.cuda(device=rank)", "x.to(device=torch.device(DEVICE_TYPE, rank))"),
        ("x.cuda(next(ranks))", "x.to(torch.device(DEVICE_TYPE, next(ranks)))"),
        ("x.cuda(device)", "x.to(device)"),
        ("x.cuda(y.device, True)", "x.to(y.device, non_blocking=True)"),
        ("x.cuda('cuda:1')", "x.to(f'{DEVICE_TYPE}:1')"),
        ("x.cuda(  # why\n    rank,  # which\n)", "x.to(  # why\n    torch.device(DEVICE_TYPE, rank),  # which\n)"),
        ("net = Net().cuda().eval()", "net = Net().to(DEVICE_TYPE).eval()"),
        ("y = list(map(torch.Tensor.cuda, x))", "y = list(map(lambda value: value.to(DEVICE_TYPE), x))"),
    ],
)
def test_a_move_keeps_its_arguments(before: str, after: str) -> None:
    assert agnostic(TORCH + before + "\n") == TORCH + after + "\n"


@pytest.mark.parametrize("source", ["x.cuda(*where)", "move = torch.zeros(1).cuda\nmove()"])
def test_a_move_that_cannot_be_written_is_left_and_reported(source: str) -> None:
    found = outcome(TORCH + source + "\n", target="agnostic")
    assert found.after.decode() == TORCH + source + "\n"
    assert [finding.code for finding in found.findings if not finding.evidence.get("applied")].count("JM103") == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.cuda.synchronize()", f"{MODULE}.synchronize()"),
        ("torch.cuda.set_device(rank)", f"{MODULE}.set_device(rank)"),
        ("if ok_cuda:\n    torch.cuda.synchronize()", "if ok_cuda:\n    torch.accelerator.synchronize()"),
        ("if use_gpu:\n    torch.cuda.set_device(rank)", "if use_gpu:\n    torch.accelerator.set_device_index(rank)"),
        ("if use_gpu: x = torch.cuda.current_device()", "if use_gpu: x = torch.accelerator.current_device_index()"),
        ("if args.gpu is not None: torch.cuda.synchronize(device=d)",
         "if args.gpu is not None: torch.accelerator.synchronize(d)"),
        ("x = torch.cuda.device_count()", "x = torch.accelerator.device_count()"),
        ("f(torch.cuda.is_available)", f"f({AVAILABLE[:-2]})"),
        ("torch.cuda.empty_cache()", f"if {AVAILABLE}:\n    torch.accelerator.empty_cache()"),
        ("if x: torch.cuda.empty_cache()",
         f"if x: torch.accelerator.empty_cache() if {AVAILABLE} else None"),
        ("def f():\n\ttorch.cuda.manual_seed_all(seed)",
         f"def f():\n\tif {AVAILABLE}:\n\t\t{MODULE}.manual_seed_all(seed)"),
        ("if torch.cuda.is_available():\n    torch.cuda.manual_seed(seed)",
         f"if {AVAILABLE}:\n    {MODULE}.manual_seed(seed)"),
        ("torch.cuda.manual_seed(next(seeds))", f"{MODULE}.manual_seed(next(seeds))"),
        ("x = torch.cuda.memory_allocated() / 2**20",
         f"x = (torch.accelerator.memory_allocated() if {AVAILABLE} else 0) / 2**20"),
        ("x = torch.cuda.memory.max_memory_allocated(device=d)",
         f"x = torch.accelerator.max_memory_allocated(d) if {AVAILABLE} else 0"),
        ("x = torch.cuda.get_rng_state_all()", f"x = {MODULE}.get_rng_state_all() if {AVAILABLE} else []"),
        ("if gpu: print(torch.cuda.get_device_name(device=0))", f"if gpu: print({MODULE}.get_device_name(0))"),
        ("with torch.cuda.device(0): ...", "with torch.accelerator.device_index(0): ..."),
        ("with torch.cuda.device(x.device): ...", f"with {MODULE}.device(x.device): ..."),
        ("with torch.cuda.stream(s): ...", f"with {MODULE}.stream(s): ..."),
        ("s = torch.cuda.Stream(priority=-1)", f"s = {MODULE}.Stream(priority=-1)"),
        ("try: f()\nexcept torch.cuda.OutOfMemoryError: ...", "try: f()\nexcept torch.OutOfMemoryError: ..."),
        ("T = torch.cuda.FloatTensor if cuda else torch.FloatTensor",
         f"T = {MODULE}.FloatTensor if cuda else torch.FloatTensor"),
        ("x = torch.cuda.FloatTensor(2, 3)", f"x = getattr({MODULE}, 'FloatTensor', torch.FloatTensor)(2, 3)"),
        ("x = y.type('torch.cuda.HalfTensor')", f"x = y.type(getattr({MODULE}, 'HalfTensor', torch.HalfTensor))"),
        ("c = torch.cuda\nc.synchronize()", f"c = {MODULE}\nc.synchronize()"),
        ("getattr(torch.cuda, name)()", f"getattr({MODULE}, name)()"),
        ("x = torch.cuda.mem_get_info()", "x = torch.accelerator.get_memory_info()"),
        ("if not torch.cuda.is_available():\n    raise SystemExit\ntorch.cuda.synchronize()",
         f"if not {AVAILABLE}:\n    raise SystemExit\ntorch.accelerator.synchronize()"),
    ],
)  # fmt: skip
def test_a_name_of_torch_cuda_goes_where_it_means_the_same(before: str, after: str) -> None:
    assert agnostic(TORCH + before + "\n") == TORCH + after + "\n"


@pytest.mark.parametrize(
    "name", ["torch.cuda.CUDAGraph()", "torch.cuda.nvtx.range_push('x')", "torch.cuda.cudart()", "torch.cuda.nope()"]
)
def test_a_name_that_not_every_accelerator_has_stays_and_is_an_error(name: str) -> None:
    found = outcome(TORCH + name + "\n", target="agnostic")
    assert found.after.decode() == TORCH + name + "\n"
    assert [finding.severity.name for finding in found.findings if finding.code == "JM101"] == ["ERROR"]


def test_every_name_of_the_table_has_a_home_or_a_hint() -> None:
    for row in table()["names"]:
        other = as_counterpart(f"torch.cuda.{row['cuda']}")
        assert other.name or other.hint, row
        if other.name is not None and row["npu"] is None:
            assert other.name.startswith(
                ("torch.accelerator.", "torch.get_device_module().default", "torch.A", "torch.O")
            )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("dist.init_process_group('nccl')", f"dist.init_process_group({BACKEND})"),
        ("b = 'nccl' if ok else 'gloo'", f"b = {BACKEND} if ok else 'gloo'"),
        ("if args.backend == 'nccl': ...", f"if args.backend == {BACKEND} != 'gloo': ..."),
        ("if args.backend != 'nccl': ...", f"if not args.backend == {BACKEND} != 'gloo': ..."),
        ("x = 'cpu:gloo,cuda:nccl'",
         f"x = f'cpu:gloo,{{DEVICE_TYPE}}:{{{BACKEND}}}' if DEVICE_TYPE != 'cpu' else 'gloo'"),
    ],
)  # fmt: skip
def test_the_back_end_is_the_devices(before: str, after: str) -> None:
    assert agnostic(TORCH + before + "\n") == TORCH + after + "\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from torch.cuda.amp import autocast, GradScaler\nGradScaler()\nwith autocast(amp): ...",
         "from torch.amp import autocast, GradScaler\nGradScaler(DEVICE_TYPE)\n"
         "with autocast(DEVICE_TYPE, enabled=amp): ..."),
        ("torch.cuda.amp.GradScaler(enabled=x)", "torch.amp.GradScaler(DEVICE_TYPE, enabled=x)"),
        ("torch.amp.GradScaler()", "torch.amp.GradScaler(DEVICE_TYPE)"),
        ("@torch.cuda.amp.custom_fwd\ndef f(): ...", "@torch.amp.custom_fwd(device_type=DEVICE_TYPE)\ndef f(): ..."),
        ("torch.autocast('cuda', dtype=d)", "torch.autocast(DEVICE_TYPE, dtype=d)"),
        ("from torch.cuda.amp import autocast\nmake(autocast)", "from torch.cuda.amp import autocast\nmake(autocast)"),
        ("make(torch.cuda.amp.autocast)", "make(torch.cuda.amp.autocast)"),
    ],
)  # fmt: skip
def test_mixed_precision_is_that_of_the_device(before: str, after: str) -> None:
    assert agnostic(TORCH + before + "\n") == TORCH + after + "\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch.cuda\ntorch.cuda.is_available()", f"import torch\n{AVAILABLE}"),
        ("import torch\nimport torch.cuda\ntorch.cuda.is_available()", f"import torch\n{AVAILABLE}"),
        ("import torch.cuda as cuda\ncuda.is_available()", f"import torch\n{AVAILABLE}"),
        ("from torch import cuda\ncuda.is_available()", f"import torch\n{AVAILABLE}"),
        ("import torch\nfrom torch import cuda, nn\ncuda.is_available()",
         f"import torch\nfrom torch import nn\n{AVAILABLE}"),
        ("import torch\nfrom torch import nn, cuda\ncuda.is_available()",
         f"import torch\nfrom torch import nn\n{AVAILABLE}"),
        ("import torch as th\nfrom torch.cuda import is_available as ok, device_count\nok() or device_count()",
         "import torch as th\nth.accelerator.is_available() or th.accelerator.device_count()"),
        ("import torch\nfrom torch.cuda import is_available, nvtx\nis_available(), nvtx.mark('x')",
         f"import torch\nfrom torch.cuda import nvtx\n{AVAILABLE}, nvtx.mark('x')"),
        ("from torch.cuda import is_available  # why\nis_available()", f"import torch  # why\n{AVAILABLE}"),
        ("from torch.cuda import is_available\n__all__ = ['is_available']\nis_available()",
         f"from torch.cuda import is_available\nimport torch\n__all__ = ['is_available']\n{AVAILABLE}"),
        ("from torch.cuda import Stream", "from torch.cuda import Stream"),
    ],
)  # fmt: skip
def test_an_import_goes_when_its_uses_are_written_in_full(before: str, after: str) -> None:
    assert agnostic(before + "\n") == after + "\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("match device:\n    case 'cuda': ...", "match device:\n    case 'cuda' | 'npu': ..."),
        ("match device:\n    case 'cuda' | 'cpu': ...", "match device:\n    case 'cuda' | 'npu' | 'cpu': ..."),
    ],
)
def test_a_pattern_names_the_accelerators(before: str, after: str) -> None:
    assert agnostic(TORCH + before + "\n", unsafe=True) == TORCH + after + "\n"


@pytest.mark.parametrize(
    "source",
    [
        "def f(device: Literal['cuda', 'cpu']): ...",
        "@torch.jit.script\ndef f(x):\n    return x.to('cuda')",
        "os.environ['CUDA_VISIBLE_DEVICES'] = '0'",
        "device = torch.accelerator.current_accelerator()\nx.to(device)",
        "x = {'cuda': 1}[device]",
    ],
)
def test_where_no_expression_can_stand_or_none_is_needed_nothing_changes(source: str) -> None:
    assert agnostic(TORCH + source + "\n", unsafe=True) == TORCH + source + "\n"
