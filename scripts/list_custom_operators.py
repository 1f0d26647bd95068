"""Write the tables of docs/emulator-custom-operators.md from the running emulator.

    python scripts/list_custom_operators.py [--check]

Between the two markers of the page stand all operators that are implemented and all that are not, by the
file that implements them. With --check nothing is written and the exit code is 1 when the page is out of date.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from jumar.device import DevicePlan, activate

PAGE = Path(__file__).parents[1] / "docs" / "emulator-custom-operators.md"
START, END = "<!-- made by scripts/list_custom_operators.py -->\n", "<!-- end -->\n"


def main() -> None:
    """Replace what is between the markers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    made = updated(page)
    if options.check:
        sys.exit(0 if made == page else 1)
    PAGE.write_text(made, encoding="utf-8")


def updated(page: str) -> str:
    """Return the page with the tables of the emulator as it is."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return before + START + tables() + END + after


def tables() -> str:
    """Return the tables as Markdown."""
    activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
    from jumar.npu.ops.mechanism import gradients, schemas
    from jumar.npu.ops.mechanism import implement as mechanism

    def is_differentiable(name: str) -> bool:
        if name in mechanism.OWN:
            return mechanism.OWN[name].autograd is not None
        return mechanism.IMPLEMENTATIONS[name].differentiable or name in gradients.DERIVATIVES

    homes: dict[str, str] = {}
    for name, implementation in sorted(mechanism.IMPLEMENTATIONS.items()):
        source = mechanism.IMPLEMENTATIONS.get(name.removesuffix(".out").removesuffix("_"), implementation)
        function = implementation.function
        if function.__module__ == mechanism.__name__:
            function = source.function
        homes[name] = function.__module__.rpartition(".")[2]
    homes |= dict.fromkeys(mechanism.OWN, "formats")
    groups: dict[str, list[str]] = defaultdict(list)
    for name, home in homes.items():
        mark = " ∇" if is_differentiable(name) else ""
        groups[home].append(f"`{name}`{mark}")
    lines = [f"{len(homes)} of {len(schemas.schemas())} overloads are implemented; ∇ marks those with a gradient.", ""]
    lines += ["| file | operators |", "|---|---|"]
    lines += [
        f"| `custom/{home}.py` | {', '.join(sorted(groups[home], key=lambda item: item.strip('`_')))} |"
        for home in sorted(groups)
    ]
    missing = sorted(set(schemas.schemas()) - set(homes))
    lines += ["", "Not implemented:", ", ".join(f"`{name}`" for name in missing) + ".", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
