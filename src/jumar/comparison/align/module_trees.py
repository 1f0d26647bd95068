"""Finds which module of one run is which of the other: by name, by renames, by structure, by parameters.

Two trees of modules are matched from the root down. Children with one name belong together. Of those
left, a wrapper is a child that holds what the other side has beside it; others are matched in order
by what they calculate. Among numbered children of other counts (an extra layer), the values of the
parameters say which is the extra one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jumar.comparison.align.sequences import common
from jumar.comparison.align.trees import Node, layer_tree, tree_of
from jumar.comparison.model.correspondence import RenamedModules
from jumar.comparison.model.renames import Renames
from jumar.recording.schema import CallRow

if TYPE_CHECKING:
    from jumar.comparison.align.modules import ModuleMap
    from jumar.comparison.model.frameworks.foreign import Foreign

ALIKE = 0.5
"""Share of common operators from which modules with different names may be one."""

VALUES_COUNT = 10.0
"""Weight of equal parameters against equal structure."""


def match_trees(
    found: ModuleMap, reference: Sequence[CallRow], target: Sequence[CallRow], frameworks: Foreign | None = None
) -> None:
    """Enter into `found` which modules belong together, from the rows of one step of each run."""
    if frameworks is None:
        of_reference, of_target = tree_of(reference), tree_of(target)
    else:
        of_reference, of_target = layer_tree(reference, frameworks, 0), layer_tree(target, frameworks, 1)
    if found.renames.modules:
        of_reference = _renamed(of_reference, found.renames)
    _match(found, of_reference, of_target)


def _renamed(root: Node, renames: Renames) -> Node:
    """Return the tree with every module where its renamed path says; the nodes keep their own paths."""
    new = Node("", "")
    for node in _all(root):
        at = new
        for part in renames.module(node.path).split(".") if renames.module(node.path) else ():
            at = at.children.setdefault(part, Node(f"{at.path}.{part}" if at.path else part, part))
        at.path, at.type = node.path, node.type or at.type
        at.own, at.parameters = [*at.own, *node.own], [*at.parameters, *node.parameters]
    return new


def _all(node: Node) -> Iterable[Node]:
    yield node
    for child in node.children.values():
        yield from _all(child)


def _match(found: ModuleMap, of_reference: Node, of_target: Node) -> None:
    """Match two modules that are one, and all below them."""
    found.same(of_reference, of_target)
    first, second = dict(of_reference.children), dict(of_target.children)
    pairs: list[tuple[Node, Node]] = []
    is_layer = of_reference.is_layer and of_target.is_layer  # each framework cuts it up in its own way
    if first.keys() != second.keys() and not is_layer:
        if _numbered(first) and _numbered(second):
            pairs = _match_layers(found, first, second)
        else:
            _unwrap(found, (of_reference, of_target), (first, second))
    pairs += [(first.pop(name), second.pop(name)) for name in list(first) if name in second]
    for one, other in () if is_layer else _by_structure(list(first.values()), list(second.values())):
        found.renamed.append(RenamedModules(reference=one.path, target=other.path, num_modules=one.size))
        pairs.append((first.pop(one.name), second.pop(other.name)))
    for one, other in pairs:
        _match(found, one, other)
    for side, left in enumerate((first, second)):
        for node in left.values():
            found.alone(side, node)


def _numbered(children: dict[str, Node]) -> bool:
    return bool(children) and all(name.isdigit() for name in children)


def _unwrap(found: ModuleMap, parents: tuple[Node, Node], children: tuple[dict[str, Node], dict[str, Node]]) -> None:
    """Take wrappers off: a child of one side whose children are what the other side has here."""
    while True:
        wrapper = next(
            (
                (side, node)
                for side in (0, 1)
                for node in children[side].values()
                if node.name not in children[1 - side] and _wraps(node, children, side)
            ),
            None,
        )
        if wrapper is None:
            return
        side, node = wrapper
        place = found.places[0].setdefault(parents[0].path, parents[0].path)
        found.places[side][node.path] = place
        other = parents[1 - side].path
        paths = (node.path, other) if side == 0 else (other, node.path)
        found.renamed.append(RenamedModules(reference=paths[0], target=paths[1], num_modules=node.size - 1))
        del children[side][node.name]
        children[side].update(node.children)


def _wraps(node: Node, children: tuple[dict[str, Node], dict[str, Node]], side: int) -> bool:
    """Return whether most of what the other side has here, by name or by structure, is inside `node`."""
    others = [other for name, other in children[1 - side].items() if name not in children[side]]
    if not others or not node.children:
        return False
    names, inside = set(node.children), {child.signature for child in node.children.values()}
    common_size = sum(other.size for other in others if other.name in names or other.signature in inside)
    if 2 * common_size > sum(other.size for other in others):
        return True
    only = next(iter(node.children.values()))
    return len(node.children) == 1 and _wraps(only, children, side)


def _by_structure(first: list[Node], second: list[Node]) -> list[tuple[Node, Node]]:
    """Return pairs of modules with different names: in order those that are equal, then the most alike."""
    if not first or not second:
        return []
    places = list(common([(node.type, node.signature) for node in first], [(n.type, n.signature) for n in second]))
    for loose in (False, True):
        left = (
            [i for i in range(len(first)) if i not in {i for i, _ in places}],
            [j for j in range(len(second)) if j not in {j for _, j in places}],
        )
        if not loose:
            tokens = [first[i].signature for i in left[0]], [second[j].signature for j in left[1]]
            places += [(left[0][i], left[1][j]) for i, j in common(*tokens)]
        else:
            places += _most_alike(first, second, left)
    return [(first[i], second[j]) for i, j in sorted(places)]


def _most_alike(
    first: Sequence[Node], second: Sequence[Node], left: tuple[Sequence[int], Sequence[int]]
) -> list[tuple[int, int]]:
    likeness = {(i, j): first[i].likeness(second[j]) for i in left[0] for j in left[1]}
    pairs: list[tuple[int, int]] = []
    for i, j in sorted(likeness, key=lambda pair: (-likeness[pair], pair)):
        if likeness[i, j] >= ALIKE and not any(i == k or j == m for k, m in pairs):
            pairs.append((i, j))
    return pairs


def _match_layers(found: ModuleMap, first: dict[str, Node], second: dict[str, Node]) -> list[tuple[Node, Node]]:
    """Return pairs of numbered modules of other counts, in order; what stays alone is left in the dictionaries."""
    of_reference, of_target = list(first.values()), list(second.values())
    pairs = []
    for i, j in _best_order([[_worth(a, b) for b in of_target] for a in of_reference]):
        a, b = of_reference[i], of_target[j]
        pairs.append((first.pop(a.name), second.pop(b.name)))
        if a.name != b.name:
            found.renamed.append(
                RenamedModules(reference=a.path, target=b.path, num_modules=a.size, by_values=a.same_values(b) > 0)
            )
    return pairs


def _worth(first: Node, second: Node) -> float:
    """Return how much speaks for two modules being one; 0 where nothing does."""
    alike = 1.0 if first.signature == second.signature else first.likeness(second)
    return alike + VALUES_COUNT * first.same_values(second) if alike >= ALIKE else 0.0


def _best_order(worth: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Return rising pairs with the greatest sum; of equal ones, those with the lowest numbers."""
    rows, columns = len(worth), len(worth[0])
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            taken = worth[i][j] + best[i + 1][j + 1] if worth[i][j] else 0.0
            best[i][j] = max(taken, best[i + 1][j], best[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < rows and j < columns:
        if worth[i][j] and best[i][j] == worth[i][j] + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs
