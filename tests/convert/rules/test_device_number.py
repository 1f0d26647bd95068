"""`-s`: device numbers from the environment, the device set first, and nothing else."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from jumar.base.findings import Finding
from jumar.convert import ConvertOptions, Failure, convert_source
from jumar.convert.model.options import Distributed, Target
from jumar.convert.model.outcome import Outcome

NUMBER = 'int(os.getenv("LOCAL_RANK", os.getenv("DEVICE_ID", "{}")))'
TEXT = "os.getenv('LOCAL_RANK', os.getenv('DEVICE_ID', '{}'))"
QUOTED = '"""double"""\n'
"""Makes double quotes the file's own."""


def outcome(source: str, *, target: Target = "npu", **options: Any) -> Outcome:
    settings = ConvertOptions(device_from_environment=True, target=target, **options)
    found = convert_source(dedent(source), "a.py", settings)
    assert not isinstance(found, Failure), found
    again = convert_source(found.after, "a.py", settings)
    assert again.after == found.after
    return found


def converted(source: str, **options: Any) -> str:
    after = outcome(
        QUOTED + 'import os\nimport torch\nq = "a", "b", "c", "d"\n' + source + "\n", **options
    ).after.decode()
    return after.partition('"d"\n')[2].removesuffix("\n")


def said(source: str, **options: Any) -> list[Finding]:
    return [finding for finding in outcome(source, **options).findings if finding.code == "JM149"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = x.cuda(0)", f"x = x.npu({NUMBER.format(0)})"),
        ("x = x.cuda(device=3)", f"x = x.npu(device={NUMBER.format(3)})"),
        ("x = x.to(1)", f"x = x.to({NUMBER.format(1)})"),
        ("torch.cuda.set_device(2)", f"torch.npu.set_device({NUMBER.format(2)})"),
        ("d = torch.device('cuda', 1)", f"d = torch.device('npu', {NUMBER.format(1)})"),
        ("d = torch.device(type='cuda', index=1)", f"d = torch.device(type='npu', index={NUMBER.format(1)})"),
        ("d = torch.device('cuda:1')", f'd = torch.device(f"npu:{{{TEXT.format(1)}}}")'),
        ("x = torch.zeros(3, device='cuda:0')", f'x = torch.zeros(3, device=f"npu:{{{TEXT.format(0)}}}")'),
        ("x = torch.zeros(3, device=0)", f"x = torch.zeros(3, device={NUMBER.format(0)})"),
        ("m = torch.nn.parallel.DistributedDataParallel(m, device_ids=[0], output_device=0)",
         f"m = torch.nn.parallel.DistributedDataParallel(m, device_ids=[{NUMBER.format(0)}], "
         f"output_device={NUMBER.format(0)})"),
    ],
)  # fmt: skip
def test_a_number_comes_from_the_environment_and_defaults_to_itself(before: str, after: str) -> None:
    assert converted(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = x.cuda()", "x = x.npu()"),
        ("x = x.cuda(args.gpu)", "x = x.npu(args.gpu)"),
        ("x = torch.zeros(2, 0)", "x = torch.zeros(2, 0)"),
        ("x = f(device=0)", "x = f(device=0)"),
        ("d = {'cuda:0': 1}", "d = {'cuda:0': 1}"),
        ("x = x.to(torch.float)", "x = x.to(torch.float)"),
        ("class B:\n    def cuda(self, i): ...\nB().cuda(0)", "class B:\n    def cuda(self, i): ...\nB().cuda(0)"),
    ],
)
def test_nothing_else_changes(before: str, after: str) -> None:
    assert converted(before) == after


def test_without_the_option_numbers_stay() -> None:
    source = b"import torch\nx = x.cuda(0)\n"
    assert b"getenv" not in convert_source(source, "a.py").after


def test_a_file_with_several_numbers_is_left_and_says_so() -> None:
    source = "import torch\na = a.to('cuda:0')\nb = b.to('cuda:1')\n"
    assert "getenv" not in outcome(source).after.decode()
    assert ["devices 0, 1" in finding.message for finding in said(source)] == [True, True]


def test_a_file_whose_os_is_something_else_is_left() -> None:
    source = "import torch\ndef f(os):\n    return os.cuda(0)\n"
    assert "getenv" not in outcome(source).after.decode()
    assert "another name" in said(source)[0].message


def test_the_import_of_os_is_added_where_it_is_missing() -> None:
    after = outcome("import torch\nx = x.cuda(0)\n").after.decode()
    assert after.index("import os\n") < after.index("os.getenv")


def test_for_any_accelerator_the_device_word_is_the_dialects() -> None:
    after = converted("x = torch.zeros(3, device='cuda:1')", target="agnostic")
    assert after == f'x = torch.zeros(3, device=f"{{DEVICE_TYPE}}:{{{TEXT.format(1)}}}")'


MAIN = """
import os
import torch

def main():
    x = torch.zeros(3).cuda()

if __name__ == '__main__':
    main()
"""


@pytest.mark.parametrize(
    ("target", "module", "setter"),
    [("npu", "torch.npu", "set_device"), ("agnostic", "torch.accelerator", "set_device_index")],
)
def test_the_device_is_set_first_where_it_never_was(target: Target, module: str, setter: str) -> None:
    after = outcome(MAIN, target=target).after.decode()
    number = NUMBER.format(0).replace('"', "'")
    assert after.endswith(
        "if __name__ == '__main__':\n"
        f"    if {module}.is_available():\n        {module}.{setter}({number})\n    main()\n"
    )


@pytest.mark.parametrize(
    "source",
    [
        MAIN.replace("    x =", "    torch.cuda.set_device(args.gpu)\n    x ="),
        MAIN.replace(".cuda()", ""),
        MAIN.partition("if __name__")[0],
    ],
)
def test_the_device_is_not_set_where_it_is_set_unused_or_only_imported(source: str) -> None:
    assert "getenv" not in outcome(source + "\n# cuda\n").after.decode()


def test_another_option_that_sets_the_device_keeps_the_word() -> None:
    settings: dict[str, Any] = {"enable": frozenset({"JM158"})}
    assert "getenv" not in outcome(MAIN, **settings).after.decode()
    assert "getenv" not in outcome(MAIN, distributed=Distributed(main="b.py")).after.decode()


def test_spawned_processes_are_reported_because_they_share_one_environment() -> None:
    source = MAIN.replace("    main()", "    torch.multiprocessing.spawn(main, nprocs=2)").replace(
        "def main()", "def main(rank)"
    )
    assert "getenv" not in outcome(source).after.decode()
    assert "share one environment" in said(source)[0].message


@pytest.mark.parametrize(
    ("variables", "number"),
    [({}, "1"), ({"DEVICE_ID": "5"}, "5"), ({"LOCAL_RANK": "3", "DEVICE_ID": "5"}, "3")],
)
def test_the_converted_expressions_read_the_launcher_first(
    variables: dict[str, str], number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOCAL_RANK", "DEVICE_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code = converted("d = torch.device('cuda:1'), x.cuda(1)")
    seen: list[object] = []

    class Torch:
        device = staticmethod(seen.append)

    class Tensor:
        npu = staticmethod(seen.append)

    exec(f"import os\n{code}", {"torch": Torch, "x": Tensor})
    assert seen == [f"npu:{number}", int(number)]


@pytest.mark.parametrize("use", ["x.to(f'cuda:{rank}')", "x.cuda(args.gpu)", "DDP(x, device_ids=[rank])"])
def test_a_computed_number_is_not_guessed(use: str) -> None:
    source = MAIN.replace(".cuda()", f".cuda()\n    {use}")
    assert "getenv" not in outcome(source).after.decode()
    assert "computed" in said(source)[0].message
