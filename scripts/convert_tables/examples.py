"""The examples on the pages of the conversion rules, and what conversion makes of them."""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import re
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from jumar.base.rules import Rule, documentation
from jumar.convert import ConvertOptions, convert_source
from jumar.convert.engine.file import convert_file
from jumar.convert.model.options import Distributed
from jumar.convert.model.outcome import Outcome
from jumar.convert.rules.order import rules_by_code
from jumar.convert.user_rules.load import load
from jumar.convert.user_rules.model import UserRules

MARK = "# the example\n"
_END = "# its end"
_SCRIPT = (Path(__file__).parent / "training_script.txt").read_text(encoding="utf-8")
"""The script that the examples about several devices are lines of: such a script is converted whole or not at all."""

_PREAMBLES = (
    "",
    "import importlib\nimport os\nimport torch\n",
    "import os\nimport torch\nimport torch.distributed as dist\nimport torch.nn.functional as F\n",
    "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n",
    "import ctypes\nimport torch\nimport torch.distributed as dist\nfrom torch.library import Library\n",
    "import torch\nimport apex\nfrom flash_attn import flash_attn_func\nimport triton\nimport triton.language as tl\n",
    "import torch\nimport pytorch_lightning as pl\nfrom transformers import AutoModel\n"
    "from torch.utils.cpp_extension import CUDAExtension\n",
    "import os\nimport numpy as np\nimport tensorflow.compat.v1 as tf\n",
    "import tensorflow as tf\n",
)
"""What may stand above an example that does not import what it uses."""

_PATHS = {
    "python": ("example.py",),
    "bash": ("run.sh", "README.md"),
    "yaml": ("config.yaml",),
    "dockerfile": ("Dockerfile",),
    "text": ("requirements.txt", "notebook.ipynb"),
    "cpp": ("kernel.cpp", "kernel.cu"),
}
"""Language of a fence -> files it may be an excerpt of."""

_FENCE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
_IMPORT = re.compile(r"(import|from) ")
_TORCH_NPU = re.compile(r"import torch_npu(  # noqa: F401)?$")


@dataclass(frozen=True, slots=True)
class Converted:
    """An example, converted so that its rule speaks of it."""

    rule: Rule
    language: str
    before: str
    after: str
    advice: str
    """What the page says to use instead."""
    needs: str
    """The option that the rule needs, as it is written on the command line; "" when it is applied by itself."""
    applied: bool
    """Whether the rule changed anything, or only reported."""
    path: str = "example.py"
    preamble: str = ""
    options: ConvertOptions = field(default_factory=ConvertOptions)

    @property
    def agnostic(self) -> str:
        """The same example, converted for any accelerator."""
        return _convert(self.before, self.path, self.preamble, replace(self.options, target="agnostic"))[1]

    @property
    def agrees(self) -> bool:
        """Whether the conversion gives what the page says to use instead."""
        known = [*self.before.splitlines(), *self.advice.splitlines()]
        added = [line for line in self.after.splitlines() if _IMPORT.match(line) and line not in known]
        after = "\n".join(line for line in self.after.splitlines() if line not in added)
        return _plain(after, self.language) == _plain(self.advice, self.language)


def _plain(code: str, language: str) -> str:
    """Return code without what an example may leave out: layout, comments, and imports of torch_npu."""
    text = "\n".join(line.rstrip() for line in code.splitlines() if line.strip() and not _TORCH_NPU.match(line))
    if language == "python":
        with contextlib.suppress(SyntaxError):
            return ast.unparse(ast.parse(text))
    return text


def section(rule: Rule, name: str) -> str:
    """Return the text under a heading of the rule's page."""
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", inspect.cleandoc(documentation(rule)), re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else ""


def fenced(text: str) -> tuple[str, str]:
    """Return language and content of the first fence; a text without one is in no language."""
    found = _FENCE.search(text)
    return (found[1], found[2]) if found else ("", text)


@cache
def converted(code: str) -> Converted | None:
    """Return the converted example of a rule, None when no conversion makes the rule speak of it.

    Of several ways to convert it (with what stands above it, and which options) the first that agrees with the
    page is taken, else the first in which the rule changes something, else the first in which it reports.
    """
    rule = rules_by_code()[code]
    best: Converted | None = None
    for found in _attempts(rule):
        if rule.safety is None or found.agrees:
            return found
        if best is None or (found.applied and not best.applied):
            best = found
    return best


def _attempts(rule: Rule) -> Iterator[Converted]:
    language, before = fenced(section(rule, "Example"))
    _, advice = fenced(section(rule, "Use instead"))
    for needs, options in _option_sets(rule):
        for path in _PATHS.get(language, ()):
            for preamble in _PREAMBLES if language == "python" else ("",):
                outcome, after = _convert(before, path, preamble, options)
                said = [finding for finding in outcome.findings if finding.code == rule.code] if outcome else []
                if said:
                    applied = any(finding.evidence.get("applied") for finding in said)
                    yield Converted(rule, language, before, after, advice, needs, applied, path, preamble, options)

    yield from _in_a_script(rule, language, before, advice)


def _in_a_script(rule: Rule, language: str, before: str, advice: str) -> Iterator[Converted]:
    """Yield the example as lines of the training script that becomes one for several devices."""
    wanted = [line.strip() for line in before.splitlines()] if language == "python" else []
    marked = _marked(_SCRIPT.splitlines(), wanted)
    if marked is None:
        return
    options = ConvertOptions(distributed=Distributed(main="example.py"))
    outcome = convert_source("\n".join(marked) + "\n", "example.py", options)
    if any(finding.code == rule.code for finding in outcome.findings):
        if not wanted:  # the example is not code: the rule speaks of the script as a whole
            yield Converted(rule, language, before, before, advice, "distributed", applied=False)
            return
        pieces = re.findall(rf"^ *{MARK}(.*?)^ *{_END}$", outcome.after.decode(), re.DOTALL | re.MULTILINE)
        after = "".join(textwrap.dedent(piece) for piece in pieces)
        yield Converted(rule, "python", before, after, advice, "distributed", applied=True)


def _marked(script: list[str], wanted: list[str]) -> list[str] | None:
    """Return the script with marks around the wanted lines, each at its first place; None when one is not in it."""
    stripped = [line.strip() for line in script]
    if not all(line in stripped for line in wanted):
        return None
    places = {stripped.index(line) for line in wanted}
    found: list[str] = []
    for number, line in enumerate(script):
        margin = line[: len(line) - len(line.lstrip())]
        if number in places and number - 1 not in places:
            found.append(f"{margin}{MARK.rstrip()}")
        found.append(line)
        if number in places and number + 1 not in places:
            found.append(f"{margin}{_END}")
    return found


def _option_sets(rule: Rule) -> Iterator[tuple[str, ConvertOptions]]:
    plain = ConvertOptions()
    if rule.opt_in:
        yield f"--enable {rule.code}", replace(plain, enable=frozenset({rule.code}))
        return
    if rule.name == "user-rule":
        yield "-r", replace(plain, user_rules=_user_rules())
        return
    yield "", plain
    yield "--unsafe", replace(plain, unsafe=True)
    yield "-sim", replace(plain, similar=True)
    yield "-s", replace(plain, device_from_environment=True)
    yield "distributed", replace(plain, distributed=Distributed(main="example.py"))
    yield "distributed", replace(plain, distributed=Distributed(main="main.py"))


@cache
def _user_rules() -> UserRules:
    """Return the user rule that the example of the page of user rules speaks of."""
    change = {"remove": "pin"}
    rule = {"name": "our-load", "match": "ours.gpu.load", "rename": "ours.npu.load", "arguments": [change]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rules.json"
        path.write_text(json.dumps({"rules": [rule]}), encoding="utf-8")
        return load(path)


def _convert(before: str, path: str, preamble: str, options: ConvertOptions) -> tuple[Outcome | None, str]:
    text = f"{preamble}{MARK}{before}" if preamble else before
    if path == "notebook.ipynb":
        text = f'{before.rstrip()}"cuda'  # the excerpt goes on, and is about CUDA
    if path == "README.md":
        text = f"```bash\n{before}```\n"
    outcome = convert_file(text.encode(), path, options)
    after = outcome.after.decode() if outcome is not None else text
    if path == "README.md":
        after = after.removeprefix("```bash\n").removesuffix("```\n")
    return outcome, after.partition(MARK)[2] if preamble else after
