"""What files of a project know of each other: names passed on, classes with methods of their own, shared words."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

from jumar.convert import Conversion, convert_tree
from jumar.convert.facts.gathering import gather
from jumar.convert.facts.python import Summary, summarise
from jumar.convert.facts.use import uses_of
from jumar.convert.model.project import ProjectFacts
from jumar.convert.syntax.source import parse


def facts_of(files: dict[str, str]) -> ProjectFacts:
    sources = {path: text.encode() for path, text in files.items()}
    summaries = {path: summarise(data) for path, data in sources.items() if path.endswith(".py")}
    return gather(summaries, sources)[0]


def names_in(files: dict[str, str], path: str) -> list[str]:
    """The qualified names that a file of a project reads, in order."""
    source = parse(files[path].encode(), path, facts_of(files))
    return [reference.name for reference in source.references if reference.certain]


def converted(root: Path, files: dict[str, str]) -> tuple[Conversion, dict[str, str]]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    conversion = convert_tree(root)
    return conversion, {outcome.path: outcome.after.decode() for outcome in conversion.files}


DEV = "from torch import cuda\nimport torch\nfrom torch.cuda import synchronize as wait\nacc = torch.cuda\n"


@pytest.mark.parametrize(
    ("where", "text", "expected"),
    [
        ("main.py", "from utils.dev import cuda\ncuda.empty_cache()\n", "torch.cuda.empty_cache"),
        ("main.py", "from utils.dev import cuda as c\nc.empty_cache()\n", "torch.cuda.empty_cache"),
        ("main.py", "from utils.dev import wait\nwait()\n", "torch.cuda.synchronize"),
        ("main.py", "from utils.dev import acc\nacc.empty_cache()\n", "torch.cuda.empty_cache"),
        ("main.py", "from utils.dev import *\nacc.empty_cache()\n", "torch.cuda.empty_cache"),
        ("main.py", "import utils.dev\nutils.dev.acc.empty_cache()\n", "torch.cuda.empty_cache"),
        ("main.py", "import utils.dev as d\nd.torch.cuda.empty_cache()\n", "torch.cuda.empty_cache"),
        ("main.py", "from utils import dev\ndev.acc.empty_cache()\n", "torch.cuda.empty_cache"),
        ("utils/other.py", "from .dev import acc\nacc.empty_cache()\n", "torch.cuda.empty_cache"),
        ("utils/other.py", "from . import dev\ndev.acc.empty_cache()\n", "torch.cuda.empty_cache"),
        ("nets/deep/a.py", "from ...utils.dev import acc\nacc.empty_cache()\n", "torch.cuda.empty_cache"),
        ("utils/__init__.py", "from .dev import acc\nacc.empty_cache()\n", "torch.cuda.empty_cache"),
        ("utils/script.py", "from dev import acc\nacc.empty_cache()\n", "torch.cuda.empty_cache"),
    ],
)
def test_a_name_is_followed_through_other_files(where: str, text: str, expected: str) -> None:
    files = {"utils/__init__.py": "", "utils/dev.py": DEV, "nets/deep/__init__.py": "", where: text}
    assert names_in(files, where)[-1] == expected


def test_a_name_is_followed_through_packages_and_several_files() -> None:
    files = {
        "pkg/__init__.py": "from .inner import *\n",
        "pkg/inner/__init__.py": "from .leaf import gpu\nfrom .leaf import gpu as second\n",
        "pkg/inner/leaf.py": "import torch.cuda as gpu\n",
        "main.py": "from pkg import second\nsecond.synchronize()\n",
    }
    assert names_in(files, "main.py") == ["torch.cuda.synchronize"]


def test_a_layout_with_src_is_found_from_its_tests() -> None:
    files = {
        "src/pkg/__init__.py": "",
        "src/pkg/dev.py": DEV,
        "tests/test_a.py": "from pkg.dev import acc\nacc.synchronize()\n",
    }
    assert names_in(files, "tests/test_a.py") == ["torch.cuda.synchronize"]


@pytest.mark.parametrize(
    "dev",
    [
        "from torch import cuda as acc\nacc = object()\n",
        "if x:\n    from torch import cuda as acc\nelse:\n    from other import acc\n",
        "def acc(): ...\n",
        "from other import acc\n",
        "__all__ = ['b']\nfrom torch import cuda as _hidden\n",
    ],
)
def test_a_name_that_may_be_something_else_stands_for_nothing(dev: str) -> None:
    main = "from utils.dev import acc\nacc.synchronize()\n"
    assert "torch.cuda.synchronize" not in names_in({"utils/dev.py": dev, "main.py": main}, "main.py")


def test_what_all_leaves_out_comes_by_no_star() -> None:
    files = {"dev.py": "__all__ = ['b']\nfrom torch import cuda as a\nb = 1\n", "main.py": "from dev import *\na.x()\n"}
    assert names_in(files, "main.py") == []


def test_imports_in_a_circle_end() -> None:
    files = {"a.py": "from b import x\nfrom b import *\n", "b.py": "from a import x\nfrom a import *\nx = x\n"}
    assert facts_of(files).of("a.py").names == {}


def test_a_fallback_to_none_is_no_rival() -> None:
    dev = "try:\n    from torch import cuda as acc\nexcept ImportError:\n    acc = None\n"
    assert names_in({"dev.py": dev, "main.py": "from dev import acc\nacc.x()\n"}, "main.py") == ["torch.cuda.x"]


def test_a_file_named_torch_in_a_corner_of_the_project_is_not_torch() -> None:
    files = {"stubs/torch/__init__.py": "cuda = 1\n", "stubs/use.py": "import torch\ntorch.cuda.x()\n"}
    assert names_in(files, "stubs/use.py") == ["torch.cuda.x"]


def test_an_alias_without_the_word_is_converted_at_both_ends(tmp_path: Path) -> None:
    conversion, after = converted(
        tmp_path,
        {
            "dev.py": "from torch import cuda as accelerator\n",
            "main.py": "from dev import accelerator\ngraph = accelerator.CUDAGraph\n",
            "quiet.py": "from dev import accelerator\nprint(accelerator.memory_allocated())\n",
        },
    )
    assert after["dev.py"].splitlines()[-1] == "from torch import npu as accelerator"
    assert after["main.py"].endswith("from dev import accelerator\ngraph = accelerator.NPUGraph\n")
    assert [outcome.path for outcome in conversion.files if type(outcome).__name__ == "Success"] == [
        "dev.py", "main.py", "quiet.py",
    ]  # fmt: skip


def test_an_attribute_by_which_another_file_calls_torch_cuda_keeps_its_name(tmp_path: Path) -> None:
    _, after = converted(tmp_path, {"dev.py": DEV, "main.py": "import dev\ndev.cuda.synchronize()\ndev.torch.cuda.x\n"})
    assert "dev.cuda.synchronize()" in after["main.py"]
    assert "dev.torch.npu" in after["main.py"] or "dev.torch.cuda.x" in after["main.py"]


def test_classes_of_other_files_with_methods_of_their_own_are_known() -> None:
    files = {
        "net.py": "class Base:\n    def cuda(self): ...\nclass Net(Base): ...\nclass Plain: ...\n",
        "more.py": "import net\nclass More(net.Net):\n    is_cuda = False\n",
        "main.py": "from net import Net as N\nfrom more import More\nN().cuda()\nMore().cuda()\n",
    }
    facts = facts_of(files)
    assert facts.methods == {
        "net.Base": {"cuda"}, "net.Net": {"cuda"}, "more.More": {"cuda", "is_cuda"},
    }  # fmt: skip
    source = parse(files["main.py"].encode(), "main.py", facts)
    assert [facts.defines(reference.name, "cuda") for reference in source.references] == [True, True]
    assert [source.has_own(reference.node, "is_cuda") for reference in source.references] == [False, True]
    assert not facts.defines("net.Plain", "cuda")
    assert not facts.defines(None, "cuda")


def test_a_file_knows_which_of_its_names_others_take() -> None:
    files = {"dev.py": DEV, "a.py": "from dev import acc\n", "b.py": "def f():\n    from dev import wait\n"}
    assert facts_of(files).of("dev.py").passed_on == {"acc", "wait"}


def test_facts_and_summaries_survive_their_travels() -> None:
    files = {"dev.py": DEV, "a.py": "from dev import *\nd = {'device': 'cuda'}\n", "c.yaml": "device: cuda\n"}
    facts = facts_of(files)
    assert pickle.loads(pickle.dumps(facts)) == facts
    for text in files.values():
        summary = summarise(text.encode())
        assert Summary.from_json(summary.to_json()) == summary


def test_summaries_know_what_does_not_parse() -> None:
    assert not summarise(b"print 'x'\n").parses
    assert not summarise(b"\0").parses


WRITERS = {
    "argparse": ("train.py", "p.add_argument('--device', default='cuda', choices=['cpu', 'cuda'])\n"),
    "click": ("train.py", "@click.option('--device', default='cuda')\ndef f(device): ...\n"),
    "typer": ("train.py", "def f(device: str = typer.Option('cuda', '--device')): ...\n"),
    "dataclass": ("train.py", "class C:\n    device: str = 'cuda'\n"),
    "field": ("train.py", "class C:\n    device: Literal['cpu', 'cuda'] = field(default='cuda')\n"),
    "dictionary": ("train.py", "C = dict()\nD = {'device': 'cuda'}\n"),
    "assignment": ("train.py", "cfg['device'] = 'cuda'\ncfg.device = 'cuda'\n"),
    "yaml": ("c.yaml", "train:\n  - device: cuda:0  # first\n"),
    "json": ("c.json", '{"train": {"device": "cuda"}}'),
    "toml": ("c.toml", 'device = "cuda"\n'),
    "shell": ("run.sh", "python main.py --device cuda --epochs 1\n"),
    "shell with =": ("run.sh", "python main.py --device=cuda\n"),
    "hydra": ("run.sh", "python main.py train.device=cuda:0\n"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_word_that_one_file_gives_and_another_reads_changes_in_both(writer: str) -> None:
    path, text = WRITERS[writer]
    reader = "if args.device == 'cuda':\n    pin = True\n"
    assert facts_of({path: text, "main.py": reader}).words == {"device": True}


@pytest.mark.parametrize(
    "reader",
    [
        "if args.device == 'cuda': ...\n",
        "if 'cuda' in cfg['device']: ...\n",
        "if cfg.get('device', 'cpu').startswith('cuda'): ...\n",
        "if getattr(args, 'device') in ('cuda', 'cpu'): ...\n",
        "x = {'cuda': 1, 'npu': 2}[args.device]\ny = args.device == 'cuda'\n",
    ],
)
def test_readers_are_seen_in_their_usual_forms(reader: str) -> None:
    assert facts_of({"c.yaml": "device: cuda\n", "main.py": reader}).words == {"device": True}


@pytest.mark.parametrize(
    "obstacle",
    [
        {"main.py": "TABLE = {'cuda': 1, 'cpu': 2}\nx = TABLE[args.device]\n"},
        {"main.py": "x = {'cuda': 1, 'cpu': 2}[cfg['device']]\n"},
        {"main.py": "match args.device:\n    case 'cuda': x = 1\n"},
        {"old.py": "print args.device == 'cuda'\n"},
    ],
)
def test_one_reader_that_cannot_change_keeps_all_words(obstacle: dict[str, str], tmp_path: Path) -> None:
    files = {"c.yaml": "device: cuda\n", "train.py": "p.add_argument('--device', default='cuda')\n", **obstacle}
    assert facts_of(files).words == {"device": False}
    conversion, after = converted(tmp_path, files)
    assert after["c.yaml"] == files["c.yaml"]
    assert "'cuda'" in after["train.py"]
    (finding,) = [finding for finding in conversion.findings if finding.code == "JM192"]
    assert finding.where.path == next(iter(obstacle))
    assert finding.evidence["key"] == "device"


def test_a_key_that_picks_an_implementation_keeps_its_words_everywhere() -> None:
    files = {"c.yaml": "attn_impl: cuda\n", "main.py": "if cfg.attn_impl == 'cuda': ...\n"}
    assert facts_of(files).words == {"attn_impl": False}


def test_the_back_end_of_collectives_changes_whatever_its_key() -> None:
    files = {
        "c.yaml": "dist_backend: nccl\n",
        "main.py": "init(backend=cfg['dist-backend'])\nx.dist_backend = 'nccl'\n",
    }
    assert facts_of(files).words == {"dist_backend": True}


def test_a_key_of_one_file_is_left_to_that_file() -> None:
    assert facts_of({"main.py": "p.add_argument('--device', default='cuda')\nargs.device == 'cuda'\n"}).words == {}


def test_a_neutral_key_is_a_device_when_it_is_used_as_one() -> None:
    yaml = {"c.yaml": "where_to_run: cuda\n"}
    used = {"main.py": "x.to(cfg.where_to_run)\n# cuda\n"}
    assert facts_of({**yaml, **used}).words == {"where_to_run": True}
    assert facts_of({**yaml, "main.py": "print(cfg.where_to_run == 'cuda')\n"}).words == {"where_to_run": False}


def test_what_others_hang_on_nodes_that_all_trees_share_is_not_followed() -> None:
    tree = ast.parse("args.backend == 'nccl'\n")
    comparison = tree.body[0].value  # type: ignore[attr-defined]
    comparison.ops[0]._parent = tree  # as pyflakes 3.2 does; Python makes one `ast.Eq()` for all trees
    try:
        assert [use.key for use in uses_of(tree)] == ["backend"]
    finally:
        del comparison.ops[0]._parent
