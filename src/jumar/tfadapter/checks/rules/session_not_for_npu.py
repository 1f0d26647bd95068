"""JM609 session-not-for-npu.

## What it does
Finds `custom_optimizers.add()` whose name is not `NpuOptimizer`; configurations in which `remapping` or
`memory_optimization` is not OFF (advice, where it is `memory_optimization` alone: published programs train so), or in
which `function_optimization` is OFF or `disable_model_pruning` is on. A configuration that goes through
`npu_config_proto` is completed by it.

## Why it matters
With another name TensorFlow ignores all its options in silence. The two rewrites of TensorFlow's own change the graph
in ways that the NPU's compiler does not take.

## Example
```python
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NPUOptimizer"
```

## Use instead
```python
custom_op.name = "NpuOptimizer"
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
```

## Fix safety
No edit is made.

## References
Document on overflow collection, the example for sess.run. The rewrites that stay on:
https://www.hiascend.com/document/detail/zh/canncommercial/601/modeldev/tfmigr2/tfmigr2_000042.html
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.tfadapter.checks.subject import Given
from jumar.tfadapter.source.script import NpuSession

RULE = Rule(
    code="JM609",
    name="session-not-for-npu",
    summary="A session's configuration lacks what the NPU needs.",
    severity=Severity.ERROR,
    doc=__doc__,
)


NAME = "NpuOptimizer"
OFF = ("remapping", "memory_optimization")


def find(given: Given) -> Iterator[Finding]:
    """Yield findings for a wrong name, for what is not off, and for rewrites that are turned the wrong way."""
    for session, script in given.sessions():
        if session.name is not None and session.name != NAME:
            yield _wrong_name(session, script.path)
        elif session.name == NAME and not script.completed:
            missing = [one for one in OFF if one not in session.off]
            if missing:
                yield _not_off(session, script.path, missing)
        for what, line in session.switched.items():
            yield _switched(session, what, Location(path=str(script.path), line=line))


def _wrong_name(session: NpuSession, path: Path) -> Finding:
    told = f"is named {session.name!r}" if session.name else "has no name"
    return RULE.finding(
        f"The custom optimizer {told}; it must be {NAME!r}.",
        where=Location(path=str(path), line=session.line),
        evidence={"name": session.name or ""},
        why="TensorFlow leaves out an optimizer that it does not know, with all its options, and says nothing.",
        action=f'Set {session.variable}.name = "{NAME}".',
    )


def _not_off(session: NpuSession, path: Path, missing: list[str]) -> Finding:
    return RULE.finding(
        f"{' and '.join(missing)} of the session's rewrite_options {'is' if len(missing) == 1 else 'are'} not OFF.",
        where=Location(path=str(path), line=session.line),
        evidence={"not_off": [*missing]},
        why="TensorFlow's own rewrites make operators that the NPU's compiler does not take.",
        action="; ".join(
            f"{session.config}.graph_options.rewrite_options.{one} = RewriterConfig.OFF" for one in missing
        ),
        severity=Severity.ADVICE if missing == ["memory_optimization"] else Severity.WARNING,
    )


def _switched(session: NpuSession, what: str, place: Location) -> Finding:
    return RULE.finding(
        f"{what} of the session's rewrite_options must stay as it is by default.",
        where=place,
        evidence={"rewrite": what},
        why="The NPU's compiler needs the graph as these rewrites leave it.",
        action=f"Leave {session.config}.graph_options.rewrite_options.{what} out.",
        severity=Severity.WARNING,
    )
