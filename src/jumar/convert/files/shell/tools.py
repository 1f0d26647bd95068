"""NVIDIA's tools, CUDA's folders, and requests for GPUs in shell commands (JM122)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.convert.files.shell.scope import NO_PROGRAMS, SPEAKERS, Scope
from jumar.convert.files.shell.words import Command, Word
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.files.cuda_tool import RULE

_QUERIES = {
    "memory": "npu-smi info -t usages -i ID (or -t memory)",
    "utilization": "npu-smi info -t usages -i ID",
    "temperature": "npu-smi info -t temp -i ID",
    "power": "npu-smi info -t power -i ID",
    "name": "npu-smi info -m",
    "count": "npu-smi info -l",
    "index": "npu-smi info -l",
    "uuid": "npu-smi info -t board -i ID",
    "driver_version": "npu-smi info -t board -i ID",
    "ecc": "npu-smi info -t ecc -i ID",
}
"""What `nvidia-smi --query-gpu=` asks for -> the call that shows it on an NPU."""
_SIMPLE = {
    (): "npu-smi info",
    ("-L",): "npu-smi info -l",
    ("--list-gpus",): "npu-smi info -l",
    ("-l",): "npu-smi info watch",
    ("topo", "-m"): "npu-smi info -t topo",
    ("pmon",): "npu-smi info proc",
}
"""Arguments of `nvidia-smi` -> the call with that purpose."""
_TOOLS = {
    "nvcc": "CANN compiles Ascend C with bisheng; CUDA kernels have to be rewritten.",
    "nsys": "msprof of CANN (msprof --application=...), or torch_npu.profiler, records a timeline.",
    "ncu": "msprof op of CANN measures single operators.",
    "nvprof": "msprof of CANN records a timeline.",
    "cuda-memcheck": "mssanitizer of CANN checks kernels.",
    "compute-sanitizer": "mssanitizer of CANN checks kernels.",
    "cuda-gdb": "msdebug of CANN debugs kernels.",
    "gpustat": "npu-smi info shows the NPUs.",
    "nvitop": "npu-smi info watch shows the NPUs.",
    "nvtop": "npu-smi info watch shows the NPUs.",
    "dcgmi": "npu-smi info, or the NPU exporter, shows the NPUs' state.",
    "nvidia-docker": "docker with the Ascend Docker Runtime: -e ASCEND_VISIBLE_DEVICES=0-7.",
    "nvidia-cuda-mps-control": "NPUs have no MPS.",
    "horovodrun": "Start one process a device; RANK_ID, RANK_SIZE and ASCEND_DEVICE_ID tell each its place.",
}
_CONTAINER_RUNNERS = frozenset({"docker", "podman", "nvidia-docker"})
_SCHEDULERS = frozenset({"srun", "sbatch", "salloc"})
_REQUEST = re.compile(r"--gres=\S*gpu\S*|--gpus\S*|-G\b|--constraint=\S*gpu\S*")
_CUDA_FOLDER = re.compile(r"/cuda[\w.-]*(/|:|$)|/nvidia/|\$\{?CUDA_HOME")
_PATH_VARIABLES = frozenset({"PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "LD_PRELOAD", "CMAKE_PREFIX_PATH"})
_DIRECTIVE = re.compile(r"^#(?:SBATCH|PBS|BSUB)\b[^\n]*", re.MULTILINE)
_DIRECTIVE_OPTION = re.compile(
    r"(?<=\s)(?:(?:--gres|--partition|-p|--constraint|-C|--qos|-q|-l)[= ]*\S*gpu\S*"
    r"|(?:--gpus|--(?:ntasks|cpus|mem)-per-gpu|-G|-gpu)\b\S*)",
    re.IGNORECASE,
)


def check(scope: Scope) -> Iterator[Proposal]:
    """Propose `npu-smi` for plain calls of `nvidia-smi`, and report everything else."""
    for command in scope.script.commands:
        for rule in (_nvidia_smi, _tool, _module, _containers, _requests, _paths):
            yield from rule(scope, command)


def directives(text: str, start: int = 0, end: int | None = None) -> Iterator[Proposal]:
    """Report the lines for a scheduler (`#SBATCH --gres=gpu:8`) between two offsets."""
    for line in _DIRECTIVE.finditer(text, start, len(text) if end is None else end):
        for match in _DIRECTIVE_OPTION.finditer(text, *line.span()):
            yield _request(match.span(), match.group())


def _nvidia_smi(scope: Scope, command: Command) -> Iterator[Proposal]:
    rest = command.arguments
    at = next((index for index, word in enumerate(rest) if word.text.rpartition("/")[2] == "nvidia-smi"), None)
    if at is None or (command.name in NO_PROGRAMS and at):
        return
    word, arguments = rest[at], rest[at + 1 :]
    new = _SIMPLE.get(tuple(argument.text for argument in arguments))
    end = (arguments or [word])[-1].end
    plain = not (command.captured or command.piped or command.targets) and new is not None
    plain = plain and scope.text[word.start : end].split() == [word.text, *(each.text for each in arguments)]
    edits = (Replacement(word.start, end, str(new)),) if plain and scope.is_npu() else ()
    yield Proposal(
        rule=RULE,
        span=(word.start, end),
        message="nvidia-smi shows GPUs only." if plain else "nvidia-smi is called and its output may be read.",
        replacements=edits,
        action="" if edits else _smi_action(new, arguments),
    )


def _smi_action(new: str | None, arguments: list[Word]) -> str:
    if new is not None:
        return f"Call `{new}` on an NPU; its output has another form."
    asked = " ".join(word.text for word in arguments if "query" in word.text)
    calls = list(dict.fromkeys(call for name, call in _QUERIES.items() if name in asked))
    return f"Call {'; '.join(f'`{call}`' for call in calls or ['npu-smi info'])}; the output has another form."


def _tool(_: Scope, command: Command) -> Iterator[Proposal]:
    for index, word in enumerate(command.arguments):
        name = word.text.rpartition("/")[2]
        if name in _TOOLS and (index == 0 or command.name not in NO_PROGRAMS) and word.text != "--nvcc":
            message = f"{name} is a tool for {'Horovod, which has no NPU' if name == 'horovodrun' else 'CUDA'}."
            yield Proposal(rule=RULE, span=(word.start, word.end), message=message, action=_TOOLS[name])


def _module(_: Scope, command: Command) -> Iterator[Proposal]:
    if command.name not in ("module", "ml"):
        return
    for word in command.arguments[1:]:
        if re.match(r"(cuda|cudnn|nccl|nvhpc|nvidia)", word.text.lower()):
            yield Proposal(
                rule=RULE, span=(word.start, word.end), message=f"The module {word.shown!r} brings NVIDIA's software.",
                action="Load the site's CANN module, or source /usr/local/Ascend/ascend-toolkit/set_env.sh.",
            )  # fmt: skip


def _containers(_: Scope, command: Command) -> Iterator[Proposal]:
    if command.name not in _CONTAINER_RUNNERS:
        return
    for word in command.arguments:
        if word.text.startswith(("--gpus", "--runtime=nvidia")) or word.text == "nvidia":
            yield Proposal(
                rule=RULE, span=(word.start, word.end), message=f"{word.shown!r} asks for NVIDIA's container runtime.",
                action="Pass -e ASCEND_VISIBLE_DEVICES=0-7 with the Ascend Docker Runtime, or --device=/dev/davinci0"
                " --device=/dev/davinci_manager --device=/dev/devmm_svm --device=/dev/hisi_hdc"
                " -v /usr/local/Ascend/driver:/usr/local/Ascend/driver:ro.",
            )  # fmt: skip


def _requests(_: Scope, command: Command) -> Iterator[Proposal]:
    if not any(word.text in _SCHEDULERS for word in command.arguments):
        return
    for word in command.arguments:
        if _REQUEST.match(word.text):
            yield _request((word.start, word.end), word.shown)


def _request(span: tuple[int, int], text: str) -> Proposal:
    return Proposal(
        rule=RULE, span=span, message=f"{text!r} asks the scheduler for GPUs.",
        action="Ask for the NPUs as the site names them, for example --gres=npu:8, and give the NPUs' partition.",
    )  # fmt: skip


def _paths(_: Scope, command: Command) -> Iterator[Proposal]:
    for word in command.words:
        assigned = word.assigned
        if assigned is None or command.name in SPEAKERS:
            continue
        if assigned[0] in _PATH_VARIABLES and _CUDA_FOLDER.search(assigned[1]):
            yield Proposal(
                rule=RULE, span=(word.start, word.end), severity=Severity.ADVICE,
                message=f"{assigned[0]} is given folders of CUDA, which an NPU machine does not have.",
                action="source /usr/local/Ascend/ascend-toolkit/set_env.sh sets the paths of CANN.",
            )  # fmt: skip
