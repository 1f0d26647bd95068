"""Nothing of CUDA stays without a word: it is converted, or a finding names it. What only sounds like it is not."""

from __future__ import annotations

import json

import pytest
from convert_cases import converted, findings, outcome
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.base.findings import Finding, Severity
from jumar.convert import ConvertOptions, convert_source
from jumar.convert.engine.converting import convert_all
from jumar.convert.model.options import Target

TORCH = "import torch\n"


def project(files: dict[str, str], target: Target = "npu") -> tuple[dict[str, str], list[Finding]]:
    """What becomes of the files of a project, and what asks for something."""
    sources = {path: text.encode() for path, text in files.items()}
    found, notes = convert_all(sources, ConvertOptions(target=target), jobs=1, cache=False)
    made = {path: each.after.decode() for path, each in found.items() if each is not None}
    all_findings = [*(finding for each in found.values() if each is not None for finding in each.findings), *notes]
    return made, [
        finding
        for finding in all_findings
        if not finding.evidence.get("applied") and finding.severity >= Severity.ADVICE
    ]


def notebook(*cells: str) -> str:
    made = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell} for cell in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def test_a_name_that_is_a_module_first_and_a_model_then_is_a_model() -> None:
    source = "import model\nmodel = model.Net()\nmodel.cuda()\nmodel = model.cuda().eval()\n"
    assert converted(source) == source.replace(".cuda()", ".npu()")


def test_a_function_of_a_module_is_named_and_left() -> None:
    source = "import ext\next.cuda()\n"
    assert converted(source) == source
    assert [(each.code, each.severity) for each in findings(source, "JM103")] == [("JM103", Severity.ADVICE)]


@pytest.mark.parametrize(
    "source",
    [
        "from common import torch\ntorch.cuda.synchronize()\nx = torch.ones(1).cuda()\n",
        "from common import *\ntorch.cuda.synchronize()\n",
        "import lib\nlib.torch.cuda.synchronize()\n",
        "import lib.deep as d\nd.torch.cuda.empty_cache()\n",
        "import lib\nt = lib.torch\nt.cuda.synchronize()\n",
        "from lib import torch as t\nt.cuda.synchronize()\nif t.cuda.is_available():\n    pass\n",
    ],
)
def test_torch_from_a_module_outside_of_the_project_is_torch(source: str) -> None:
    made, left = project({"a.py": source})
    assert "cuda" not in made["a.py"]
    assert not left
    assert "cuda." not in project({"a.py": source}, "agnostic")[0]["a.py"]


def test_a_module_of_the_project_called_torch_is_not_pytorch() -> None:
    files = {"backend/__init__.py": "", "backend/torch.py": "def f():\n    pass\n"}
    source = "from backend import torch\ntorch.f()\n"
    assert project({**files, "a.py": source})[0]["a.py"] == source


SCRIPTED = """@torch.jit.script
def f(x: torch.Tensor):
    if x.is_cuda:
        return x
    return x.cuda()
"""


@pytest.mark.parametrize(
    "source",
    [
        SCRIPTED,
        SCRIPTED.replace("@torch.jit.script\n", "") + "g = torch.jit.script(f)\n",
        "class M(torch.nn.Module):\n    def forward(self, x: torch.Tensor):\n"
        "        return x.cuda() if not x.is_cuda else x\n"
        "m = torch.jit.script(M().eval())\n",
        "class M(torch.nn.Module):\n    @torch.jit.export\n"
        "    def g(self, x: torch.Tensor):\n        return x.cuda()\n",
    ],
)
def test_torchscript_gets_methods_that_it_knows(source: str) -> None:
    after = converted(TORCH + source)
    assert ".to('npu')" in after
    assert "cuda" not in after
    assert "is_npu" not in after
    assert ".npu()" not in after


def test_what_torchscript_leaves_out_and_what_is_traced_is_ordinary_python() -> None:
    source = TORCH + "class M(torch.nn.Module):\n    def __init__(self):\n        self.w = w.cuda()\n"
    source += "    @torch.jit.ignore\n    def h(self, x):\n        return x.cuda()\nm = torch.jit.script(M())\n"
    assert converted(source) == source.replace(".cuda()", ".npu()")


def test_a_move_that_torchscript_cannot_make_is_named() -> None:
    found = findings(TORCH + SCRIPTED.replace(".cuda()", ".cuda(0)"), "JM103")
    assert ["TorchScript" in each.message for each in found] == [True]


@pytest.mark.parametrize(
    "cell",
    [
        "%time x.cuda()",
        "%timeit -n 3 -r 2 x.to('cuda')",
        "if a:\n  %time y = x.cuda()",
        "y = %time x.cuda()",
        "%prun -l 5 f(x.cuda())",
        "%%timeit -n 2 x = x.cuda()\ny.cuda()",
        "%%time\nx.cuda()",
        "%lprun -f f f(x.cuda())",
        "a = 1\n%time f(a).cuda()\nb.cuda()",
    ],
)
def test_code_behind_a_magic_is_converted(cell: str) -> None:
    made, left = project({"n.ipynb": notebook("import torch", cell)})
    assert not left
    expected = cell.replace(".cuda()", ".npu()").replace("'cuda'", "'npu'")
    assert json.loads(made["n.ipynb"])["cells"][1]["source"] == expected


@pytest.mark.parametrize("cell", ["%%cython\nx.cuda()", "%own x.cuda()", "%%writefile a.txt\nx.cuda()"])
def test_a_magic_that_is_not_read_is_named(cell: str) -> None:
    _, left = project({"n.ipynb": notebook("import torch", cell)})
    assert [each.code for each in left] == ["JM128"]


@pytest.mark.parametrize(
    ("path", "text", "num"),
    [
        ("a.pyx", "import torch\ncdef f(x):\n    return x.cuda()  # .cuda()\n", 1),
        ("a.pyx", "cdef f(x):\n    if x.is_cuda:\n        return x.to('cuda')\n", 2),
        ("a.pxd", "cdef extern from 'cuda_runtime.h':\n    int cudaMalloc()\n", 1),
        ("a.py.in", "import torch\nx = @X@.cuda()\n", 1),
        ("train.py.j2", "x = {{ name }}.cuda()\n{# torch.cuda #}\n", 1),
        ("a.pyx", "# torch.cuda\nx = 1\n", 0),
    ],
)
def test_sources_that_no_rule_reads_are_looked_at(path: str, text: str, num: int) -> None:
    made, left = project({path: text})
    assert made.get(path, text) == text
    assert [each.code for each in left] == ["JM197"] * num


def test_kernels_and_documents_are_no_residue() -> None:
    cpp = '#include <torch/extension.h>\n#define C(x) (x.is_cuda())\nPYBIND11_MODULE(a, m) { m.def("f", &f); }\n'
    _, left = project({"a.cpp": cpp, "README.md": "```python\nx.cuda()\n```\n"})
    assert [each.code for each in left] == ["JM126"]


def test_a_tensor_type_in_an_annotation_is_a_tensor_anywhere() -> None:
    made, left = project({"a.py": TORCH + "def f(x: torch.cuda.FloatTensor): ...\n"}, "agnostic")
    assert made["a.py"] == TORCH + "def f(x: torch.Tensor): ...\n"
    assert not left


def test_stubs_are_python() -> None:
    made, _ = project({"a.pyi": TORCH + "def f(device: str = 'cuda') -> torch.cuda.FloatTensor: ...\n"})
    assert "def f(device: str = 'npu') -> torch.npu.FloatTensor: ..." in made["a.pyi"]


@pytest.mark.parametrize(
    "source",
    [
        "exec('x = x.cuda()')",
        "code = '''\nimport torch\nx = torch.zeros(2, device=\"cuda\")\n'''\nexec(code)",
        "timeit.timeit('x.cuda()', setup='import torch')",
        "subprocess.run([sys.executable, '-c', 'import torch; torch.cuda.synchronize()'])",
        "def f(T):\n    T.cuda.synchronize()",
        "def f(T):\n    return T.cuda.is_available()",
        "fn = net.cuda",
        "apply(x.cuda)",
    ],
)
def test_what_no_rule_resolves_is_named(source: str) -> None:
    _, left = project({"a.py": TORCH + source + "\n"})
    assert left


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    '''Call x.cuda() first, or torch.cuda.synchronize().'''",
        "# x.cuda()\nx = 1",
        "raise RuntimeError('x.cuda()')",
        "print('torch.cuda.is_available()', 1)",
        "parser.add_argument('--a', help='x.cuda()')",
        "if args.cuda:\n    pass",
        "on = opt.cuda and ready",
        "class A:\n    def cuda(self):\n        return self\nA().cuda()",
        "class A:\n    is_cuda = False\nb = A().is_cuda",
        "path = 'lib/cuda/x'",
        "parser.add_argument('--gpu-on', dest='cuda', action='store_true')",
        "from numpy.core import _methods\n_methods.f()",
        "from ._helpers import run\nrun(x)",
    ],
)
def test_what_only_sounds_like_it_is_not_accused(source: str) -> None:
    made, left = project({"a.py": TORCH + source + "\n"})
    assert made["a.py"] == TORCH + source + "\n"
    assert not left


BUILD = "from torch.utils.cpp_extension import CUDAExtension\nsetup(ext_modules=[CUDAExtension('voxels', ['v.cu']), "
BUILD += (
    "CUDAExtension(name='pkg.spatial', sources=['s.cu']), make_cuda_ext(name='roi', module='pkg.ops', sources=[])])\n"
)


@pytest.mark.parametrize(
    "source",
    [
        "import voxels\n",
        "from voxels import forward\n",
        "from pkg import spatial\n",
        "from pkg.spatial import go\n",
        "from pkg.ops import roi\n",
        "import torch\nfrom simple._C import dist\n",
        "import torch\nimport points._ext as _ext\n_ext.f()\n",
        "import torch\nfrom . import _C\n_C.f()\n",
        "import torch\nimport Kernels as K\nclass F(torch.autograd.Function):\n    @staticmethod\n"
        "    def forward(ctx, x):\n        return K.op(x)\n",
        "import torch\ny = torch.ops.mine.op(x)\n",
        "import torch\nfrom mmcv.utils import ext_loader\nm = ext_loader.load_ext('_e', ['f'])\n"
        "class F(torch.autograd.Function):\n    def forward(ctx, x):\n        return m.f(x)\n",
    ],
)
def test_compiled_modules_of_any_name_are_named(source: str) -> None:
    _, left = project({"setup.py": BUILD, "pkg/__init__.py": "", "a.py": source})
    assert [each.code for each in left if each.where.path == "a.py"] == ["JM131"]


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nfrom pkg import _impl\n_impl.f()\n",
        "import torch\nfrom pkg._ops import run\nrun(x)\n",
        "import torch, einops\nclass F(torch.autograd.Function):\n"
        "    def forward(ctx, x):\n        return einops.rearrange(x, '')\n",
        "import torch\ny = torch.ops.aten.add(x, x)\n",
        "import torch\nlib = torch.library.Library('mine', 'DEF')\ny = torch.ops.mine.op(x)\n",
    ],
)
def test_python_modules_are_not_taken_for_compiled_ones(source: str) -> None:
    files = {"pkg/__init__.py": "", "pkg/_impl.py": "def f():\n    pass\n", "pkg/_ops.py": "def run(x):\n    pass\n"}
    assert project({**files, "a.py": source})[1] == []


def test_a_compiled_module_is_named_where_its_file_names_no_torch() -> None:
    for source in ("from knn._C import dist\n", "import points._ext as _ext\n_ext.f(x)\n"):
        assert [each.code for each in project({"a.py": source})[1]] == ["JM131"]


@pytest.mark.parametrize(
    "source",
    [
        "exec(f'x{i} = x.cuda({i})')\n",
        'code = f"""\n    import torch\n    x = torch.zeros({n}).cuda()\n"""\n',
        "T = string.Template('x = x.cuda($d)')\n",
        "os.system(\"python -c 'import torch; torch.zeros(1).cuda()'\")\n",
        """cmd = 'python3 -u -c "import torch; print(torch.cuda.device_count())"'\n""",
    ],
)
def test_code_in_a_string_with_fields_or_in_a_command_is_named(source: str) -> None:
    assert "JM197" in {each.code for each in project({"a.py": source})[1]}


def test_messages_with_fields_are_no_code() -> None:
    for source in ("print(f'call x.cuda() on {x}')\n", "msg = 'Use $HOME or .cuda() there'\n"):
        assert "JM197" not in {each.code for each in project({"a.py": source})[1]}


def test_names_of_other_packages_that_say_cuda_are_noted() -> None:
    source = "from fabric.accelerators import CUDAAccelerator\nn = CUDAAccelerator.count()\nrun(min_cuda_gpus=1)\n"
    outcome = convert_source(source, "a.py")
    (note,) = [each for each in outcome.findings if each.code == "JM114"]
    assert note.evidence["names"] == {"fabric.accelerators.CUDAAccelerator.count": 1, "min_cuda_gpus": 1}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.bat", "set CUDA_VISIBLE_DEVICES=0\n"),
        ("a.ps1", "python train.py --device cuda\n"),
        ("Jenkinsfile", "sh 'python train.py --device=cuda'\n"),
        ("a.gin", "train.device = 'cuda'\n"),
        ("a.jsonnet", "{device: 'cuda:0'}\n"),
        ("CMakeLists.txt", "find_package(CUDA REQUIRED)\n"),
        ("CMakeLists.txt", "enable_language(CUDA)\n"),
        ("CMakeLists.txt", "target_link_libraries(x cudart)\n"),
    ],
)
def test_scripts_and_builds_that_no_rule_reads_are_looked_at(path: str, text: str) -> None:
    assert [each.code for each in project({path: text})[1]] == ["JM197"]


PIECES = """x.cuda()
f(x).cuda(0)
y = x.is_cuda
torch.cuda.synchronize()
T.cuda.synchronize()
z = 'cuda'
exec('x.cuda()')
m = net.cuda
d = {'cuda': x.cuda()}
t = f'cuda:{i}'
g(lambda v: v.cuda())
x = a if q.is_cuda else b.cuda()
from torch.cuda import Stream
a.cuda.b.cuda()"""
pieces = st.sampled_from([*PIECES.split("\n"), "if x.is_cuda:\n    x = x.cuda()"])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(pieces, min_size=1, max_size=5), st.sampled_from(["npu", "agnostic"]))
def test_every_residue_of_a_random_program_is_named_on_its_line(lines: list[str], target: Target) -> None:
    source = TORCH + "\n".join(lines) + "\n"
    found = convert_source(source, "a.py", ConvertOptions(target=target))
    after = found.after.decode()
    named = {
        line
        for each in found.findings
        if not each.evidence.get("applied")
        for line in (*range(each.where.line or 0, (each.where.end_line or 0) + 1), *_lines(each))
    }
    for number, text in enumerate(source.split("\n"), 1):
        if "cuda" in text and text in after.split("\n"):
            assert number in named, (text, after)
    again = convert_source(after, "a.py", ConvertOptions(target=target))
    assert again.after.decode() == after


def _lines(finding: Finding) -> list[int]:
    told = finding.evidence.get("lines")
    return [line for line in told if isinstance(line, int)] if isinstance(told, list) else []


def test_a_comment_silences_the_scan() -> None:
    source = TORCH + "exec('x.cuda()')  # jumar: ignore[JM197]\n"
    assert [each.code for each in outcome(source).findings if each.severity >= Severity.ADVICE] == []
