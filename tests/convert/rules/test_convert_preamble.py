"""Statements that edits need at module level: each once, in the right place, before its first use."""

from __future__ import annotations

import pytest
from convert_cases import IMPORT, outcome

from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.model.options import ConvertOptions
from jumar.convert.rules.api import cuda_device_string, import_torch_npu
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.source import parse

DEFINITION = "DEVICE_TYPE = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else 'cpu'"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\nx = f(device='cuda')\n", f"import torch\n\n{DEFINITION}\n\nx = f(device=DEVICE_TYPE)\n"),
        ("import torch\n\nx = f(device='cuda')\n", f"import torch\n\n{DEFINITION}\n\nx = f(device=DEVICE_TYPE)\n"),
        ("import torch\nimport os\n\n\ndef f(device='cuda'): ...\n",
         f"import torch\nimport os\n\n{DEFINITION}\n\n\ndef f(device=DEVICE_TYPE): ...\n"),
        ("x = dict(device='cuda')\n", f"import torch\n\n{DEFINITION}\n\nx = dict(device=DEVICE_TYPE)\n"),
        ("#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nx = dict(device='cuda')\n",
         "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n"
         f"import torch\n\n{DEFINITION}\n\nx = dict(device=DEVICE_TYPE)\n"),
        ("# Licence\n\n# where to\nx = dict(device='cuda')\n",
         f"# Licence\n\nimport torch\n\n{DEFINITION}\n\n# where to\nx = dict(device=DEVICE_TYPE)\n"),
        ("'''Doc.'''\nfrom __future__ import annotations\nx = dict(device='cuda')\n",
         "'''Doc.'''\nfrom __future__ import annotations\n"
         f"import torch\n\n{DEFINITION}\n\nx = dict(device=DEVICE_TYPE)\n"),
        ("DEVICE = 'cuda'\nimport torch\n",
         f"import torch\n\n{DEFINITION}\n\nDEVICE = DEVICE_TYPE\nimport torch\n"),
        ("import os\nimport torch\nos.environ['A'] = '1'\nx = f(device='cuda')\n",
         f"import os\nimport torch\nos.environ['A'] = '1'\n\n{DEFINITION}\n\nx = f(device=DEVICE_TYPE)\n"),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\ndef f(): return g(device='cuda')\n",
         f"try:\n    import torch\n    {DEFINITION}\nexcept ImportError:\n    torch = None\n"
         "def f(): return g(device=DEVICE_TYPE)\n"),
        ("import torch  # why\r\nx = f(device='cuda')\r\n",
         f"import torch  # why\r\n\r\n{DEFINITION}\r\n\r\nx = f(device=DEVICE_TYPE)\r\n"),
        ("import torch; x = f(device='cuda')\n",
         f"import torch\n\n{DEFINITION}\n\nimport torch; x = f(device=DEVICE_TYPE)\n"),
        ("import torch\ntorch.cuda.empty_cache()\ntorch.zeros(1, device='cuda')",
         f"import torch\n\n{DEFINITION}\n\nif torch.accelerator.is_available():\n"
         "    torch.accelerator.empty_cache()\ntorch.zeros(1, device=DEVICE_TYPE)"),
    ],
)  # fmt: skip
def test_the_device_variable_is_defined_once_after_the_imports(before: str, after: str) -> None:
    assert outcome(before, target="agnostic").after.decode() == after


def test_torch_that_was_imported_late_is_imported_early_and_reported() -> None:
    found = outcome("def f():\n    import torch\n    return torch.zeros(1, device='cuda')\n", target="agnostic")
    assert found.after.decode().startswith(f"import torch\n\n{DEFINITION}\n\ndef f():")
    assert [
        finding.message for finding in found.findings if finding.code == "JM107" and "now imported" in finding.message
    ]


@pytest.mark.parametrize(
    ("taken", "name"),
    [
        ("DEVICE_TYPE = 1\n", "ACCELERATOR_TYPE"),
        ("def f(DEVICE_TYPE):\n    return DEVICE_TYPE, ACCELERATOR_TYPE\n", "TORCH_DEVICE_TYPE"),
    ],
)
def test_the_variable_takes_a_name_that_is_free(taken: str, name: str) -> None:
    found = outcome(f"import torch\n{taken}torch.device('cuda')\n", target="agnostic").after.decode()
    assert found.endswith(f"torch.device({name})\n")
    assert f"\n{name} = torch.accelerator." in found


def test_an_earlier_conversions_variable_is_used_again() -> None:
    before = f"import torch\n\n{DEFINITION.replace('DEVICE_TYPE', 'WHERE')}\n\ntorch.device('cuda')\n"
    assert outcome(before, target="agnostic").after.decode() == before.replace("'cuda'", "WHERE")


def test_an_alias_of_torch_is_used_in_the_definition() -> None:
    found = outcome("import torch as th\nth.device('cuda')\n", target="agnostic").after.decode()
    assert "DEVICE_TYPE = th.accelerator.current_accelerator().type if th.accelerator.is_available()" in found


def needing(*requires: str, source: str = "import torch\nx = 1\n") -> str:
    """The source after the preamble for one edit with these requirements."""
    context = Context(parse(source, "a.py"), ConvertOptions())
    at = source.index("x = 1")
    edit = Replacement(at, at + 1, "y")
    context.add(
        Proposal(rule=cuda_device_string.RULE, span=(at, at + 1), message="", replacements=(edit,), requires=requires)
    )
    for proposal in import_torch_npu.find(context):
        for replacement in proposal.replacements:
            source = source[: replacement.start] + replacement.text + source[replacement.end :]
    return source


@pytest.mark.parametrize(
    ("requires", "source", "after"),
    [
        (("import os",), "import torch\nx = 1\n", "import torch\nimport os\nx = 1\n"),
        (("import os", "import os"), "import torch\nx = 1\n", "import torch\nimport os\nx = 1\n"),
        (("import os",), "import os\nx = 1\n", "import os\nx = 1\n"),
        (("import os.path",), "import os\nx = 1\n", "import os\nimport os.path\nx = 1\n"),
        (("from a import b",), "from a import b\nx = 1\n", "from a import b\nx = 1\n"),
        (("from a import b",), "import a\nx = 1\n", "import a\nfrom a import b\nx = 1\n"),
        (("import a as b",), "import a\nx = 1\n", "import a\nimport a as b\nx = 1\n"),
        (("import torch_npu",), "import torch\nx = 1\n", f"import torch\n{IMPORT}x = 1\n"),
        (("import os",), "def f():\n    import os\nx = 1\n", "import os\ndef f():\n    import os\nx = 1\n"),
        (("A = 1",), "import torch\nA = 1\nx = 1\n", "import torch\nA = 1\nx = 1\n"),
    ],
)
def test_a_required_statement_is_added_where_it_is_missing(requires: tuple[str, ...], source: str, after: str) -> None:
    assert needing(*requires, source=source) == after


def test_what_an_edit_needs_stands_above_the_decorators_of_the_first_statement() -> None:
    after = outcome("@torch.jit.script\ndef f(x):\n    return x.to('cuda')\n", target="agnostic").after.decode()
    assert after.startswith("import torch\n\nDEVICE_TYPE = ")
    assert "\n\n@torch.jit.script\ndef f(x):\n    return x.to(DEVICE_TYPE)\n" in after
