"""Opt-in rules about data: int32 targets, partial batches, pinned memory, copies that need not block."""

from __future__ import annotations

from textwrap import dedent

import pytest
from convert_cases import rules_in
from opt_in_cases import converted_with, findings_with, outcome_with, page_block, unchanged_with

from jumar.convert import ConvertOptions, convert_source

RULES = rules_in("jumar.convert.rules.manual")
EDITED = [rule for rule in RULES if rule.safety is not None]


def test_the_manual_rules_have_the_codes_from_150_to_164() -> None:
    assert [rule.code for rule in RULES] == [f"JM{number}" for number in range(150, 165)]
    assert all(rule.opt_in for rule in RULES)


@pytest.mark.parametrize("rule", EDITED, ids=lambda rule: rule.code)
def test_the_example_of_a_manual_step_becomes_what_its_page_promises(rule) -> None:  # type: ignore[no-untyped-def]
    example, promised = page_block(rule, "Example"), page_block(rule, "Use instead")
    assert converted_with("import torch\n" + example, rule.code) == "import torch\n" + promised


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_without_being_asked_for_a_manual_step_says_nothing(rule) -> None:  # type: ignore[no-untyped-def]
    found = convert_source("import torch\n" + page_block(rule, "Example"), "a.py", ConvertOptions(unsafe=True))
    assert rule.code not in {finding.code for finding in found.findings}


TRAIN = """\
import torch
import torch.nn as nn
criterion = nn.CrossEntropyLoss().to(device)
def train(loader):
    for x, y in loader:
        {move}
        loss = criterion(model(x), y)
        {use}
"""


@pytest.mark.parametrize(
    ("move", "after"),
    [
        ("y = y.to(device)", "y = y.to(torch.int32).to(device)"),
        ("x, y = x.to(d), y.to(d, non_blocking=True)", "x, y = x.to(d), y.to(torch.int32).to(d, non_blocking=True)"),
        ("y = y.to(  # one\n            device)", "y = y.to(torch.int32).to(  # one\n            device)"),
    ],
)
def test_the_targets_of_a_loss_become_int32_before_they_are_moved(move: str, after: str) -> None:
    source = TRAIN.format(move=move, use="pass")
    assert converted_with(source, "JM150") == TRAIN.format(move=after, use="pass")


@pytest.mark.parametrize(
    "use",
    [
        "y.eq(pred).sum()",
        "correct = (pred == y).float().mean()",
        "accuracy(x, y)",
        "print(y.size(0), f'{y}')",
    ],
)
def test_uses_of_targets_that_take_int32_do_not_matter(use: str) -> None:
    source = TRAIN.format(move="y = y.to(device)", use=use)
    assert ".to(torch.int32)" in converted_with(source, "JM150")


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        ("nn.functional.one_hot(y, 10)", "passed to `nn.functional.one_hot`"),
        ("x2 = model2(x, y)", "passed to `model2`"),
        ("z = table[y]", "indexes"),
        ("z = y + 1", "computed with"),
        ("x, y = mixup(x, y)", "mixup"),
    ],
)
def test_targets_that_something_needs_as_int64_stay_and_the_reason_is_said(use: str, reason: str) -> None:
    (finding,) = unchanged_with(TRAIN.format(move="y = y.to(device)", use=use), "JM150")
    assert reason in finding.message


def test_a_function_of_the_file_that_gets_the_targets_is_looked_into() -> None:
    source = TRAIN.format(move="y = y.to(device)", use="acc(x, y)")
    harmless = "\ndef acc(out, target):\n    return out.eq(target.view(1, -1))\n"
    harmful = "\ndef acc(out, target):\n    return torch.eye(10)[target]\n"
    assert ".to(torch.int32)" in converted_with(source + harmless, "JM150")
    assert unchanged_with(source + harmful, "JM150")


@pytest.mark.parametrize(
    "source",
    [
        TRAIN.replace("nn.CrossEntropyLoss()", "nn.MSELoss()").format(move="y = y.to(device)", use="pass"),
        TRAIN.replace("nn.CrossEntropyLoss()", "make_loss()").format(move="y = y.to(device)", use="pass"),
        TRAIN.format(move="y = y.to(torch.long)", use="pass"),
        TRAIN.format(move="y = y.to(device, dtype=torch.long)", use="pass"),
        TRAIN.format(move="y = y.view(-1)", use="pass"),
    ],
)
def test_only_targets_of_classification_losses_that_are_moved_are_cast(source: str) -> None:
    assert unchanged_with(source, "JM150") == []


def test_on_any_accelerator_targets_stay_int64() -> None:
    (finding,) = unchanged_with(TRAIN.format(move="y = y.to(device)", use="pass"), "JM150", target="agnostic")
    assert "CPU" in finding.message


TWO_LOADERS = """\
from torch.utils.data import DataLoader
def run(args):
    {a} = DataLoader({da}, batch_size=8)
    {b} = DataLoader({db}, batch_size=8)
    for x, y in {a}:
        loss = f(x, y)
        loss.backward()
    with torch.no_grad():
        for x, y in {b}:
            f(x, y)
"""


@pytest.mark.parametrize(
    ("a", "da", "b", "db"),
    [
        ("train_loader", "train_set", "val_loader", "val_set"),
        ("first", "one", "second", "two"),
        ("loader", "MNIST('.', train=True)", "other", "MNIST('.', train=False)"),
        ("trainloader", "d", "testloader", "d"),
        ("dl", "load('train')", "dl2", "load(split='validation')"),
    ],
)
def test_only_the_loader_that_trains_drops_its_last_batch(a: str, da: str, b: str, db: str) -> None:
    before = TWO_LOADERS.format(a=a, b=b, da=da, db=db)
    expected = before.replace(f"DataLoader({da}, batch_size=8)", f"DataLoader({da}, batch_size=8, drop_last=True)", 1)
    assert converted_with("import torch\n" + before, "JM151") == "import torch\n" + expected


def test_a_loader_is_followed_into_the_functions_it_is_passed_to() -> None:
    source = """\
    from torch.utils.data import DataLoader
    def fit(batches, net):
        for x in batches:
            net(x).backward()
    def main():
        items = DataLoader(stuff, 4)
        fit(items, net)
    """
    assert "DataLoader(stuff, 4, drop_last=True)" in converted_with(source, "JM151")


@pytest.mark.parametrize(
    "made",
    [
        "loader = DataLoader(dataset, 4)",
        "train_loader = DataLoader(test_set, 4)",
        "loaders = {k: DataLoader(sets[k], 4) for k in ('train', 'val')}",
        "train_loader = DataLoader(train_set, batch_sampler=sampler)",
        "train_loader = DataLoader(train_set, **options)",
    ],
)
def test_a_loader_whose_use_or_options_cannot_be_told_stays(made: str) -> None:
    unchanged_with(f"from torch.utils.data import DataLoader\n{made}\n", "JM151")


@pytest.mark.parametrize(
    "made",
    [
        "train_loader = DataLoader(train_set, 4, drop_last=args.drop)",
        "train_loader = DataLoader(train_set, 4, drop_last=True)",
        "train_loader = DataLoader(train_set, batch_size=None)",
        "val_loader = DataLoader(val_set, 4, drop_last=False)",
    ],
)
def test_a_loader_that_says_what_it_drops_is_left_in_silence(made: str) -> None:
    assert unchanged_with(f"from torch.utils.data import DataLoader\n{made}\n", "JM151") == []


def test_drop_last_false_becomes_true_and_known_keyword_dictionaries_are_read() -> None:
    source = """\
    import torch.utils.data as d
    kw = {'batch_size': 4}
    kw.update({'num_workers': 2})
    train_loader = d.DataLoader(train_set, drop_last=False)
    train2 = d.DataLoader(train_set, **kw)
    """
    after = converted_with(source, "JM151")
    assert "d.DataLoader(train_set, drop_last=True)" in after
    assert "d.DataLoader(train_set, **kw, drop_last=True)" in after
    dropping = dedent(source).replace("'num_workers': 2", "'drop_last': False")
    assert "**kw)" in converted_with(dropping, "JM151")


def test_steps_on_the_same_loader_compose() -> None:
    source = "import torch\ntrain = torch.utils.data.DataLoader(train_set, 4)\nfor x in train:\n    x = x.cuda()\n"
    after = converted_with(source, "JM151", "JM152", "JM153")
    assert "DataLoader(train_set, 4, drop_last=True, pin_memory=True)" in after
    assert "x = x.npu(non_blocking=True)" in after


def test_a_loader_that_loads_in_the_training_process_is_reported() -> None:
    source = "from torch.utils.data import DataLoader\nloader = DataLoader(d, pin_memory=True, num_workers={})\n"
    assert len(unchanged_with(source.format(0), "JM152")) == 1
    assert unchanged_with(source.format(4), "JM152") == []


@pytest.mark.parametrize(
    "line", ["x = x.to(torch.float16)", "x = x.to(device, torch.half)", "x = y.cuda()", "x = x.to(other)", "x = f(x)"]
)
def test_what_is_no_plain_move_of_the_batch_keeps_blocking(line: str) -> None:
    source = f"import torch\nloader = torch.utils.data.DataLoader(d, pin_memory=True)\nfor x in loader:\n    {line}\n"
    assert "non_blocking" not in outcome_with(source, "JM153").after.decode()


def test_moves_keep_blocking_where_a_loader_does_not_pin() -> None:
    source = "import torch\nloader = torch.utils.data.DataLoader(d)\nfor x in loader:\n    x = x.cuda()\n"
    assert findings_with(source, "JM153") == []
