"""From one device to several: what is written, and what is refused."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from distributed_runs import SCRIPTS, convert

from jumar.base.findings import Severity
from jumar.convert import ConvertOptions, Success, convert_source
from jumar.convert.model.options import Distributed

CONVERTED = {
    "cifar_like.py": "net",
    "mnist_like.py": "model",
    "trainer_class.py": "model",
    "gan.py": "netG",
    "data_parallel.py": "model",
}

PLAIN = """\
import torch
from torch.utils.data import DataLoader

def main():
    model = torch.nn.Linear(4, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=4, shuffle=True)
    for epoch in range(2):
        for x, y in loader:
            loss = (model(x.cuda()) - y.cuda()).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.save(model.state_dict(), 'model.pt')

if __name__ == '__main__':
    main()
"""


def lines(found: Success) -> list[str]:
    """The script's own lines after conversion, without the helpers."""
    text = found.after.decode()
    tree = ast.parse(text)
    before = {getattr(node, "name", "") for node in ast.parse(found.before).body}
    new = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name not in before]
    hidden = {number for node in new for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return [line.strip() for number, line in enumerate(text.splitlines(), 1) if number not in hidden and line.strip()]


def reasons(source: str, model: str = "model") -> list[str]:
    return [finding.message for finding in convert(dedent(source), model).findings if finding.code == "JM181"]


def plain(**changes: str) -> str:
    source = PLAIN
    for old, new in changes.items():
        part = {"loop": "for x, y in loader:", "make": "loader = DataLoader(data, batch_size=4, shuffle=True)",
                "save": "torch.save(model.state_dict(), 'model.pt')", "start": "main()\n",
                "model": "model = torch.nn.Linear(4, 2).cuda()", "step": "optimizer.step()",
                "loss": "loss = (model(x.cuda()) - y.cuda()).pow(2).mean()"}[old]  # fmt: skip
        assert part in source
        head, _, tail = source.rpartition(part)
        source = head + new + tail
    return source


# --- what is written -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("script", "model"), CONVERTED.items())
def test_a_script_is_converted_and_parses_and_a_second_conversion_changes_nothing(script, model):
    found = convert((SCRIPTS / script).read_text(), model, name=script)
    ast.parse(found.after)
    codes = {finding.code for finding in found.findings}
    assert {"JM175", "JM176", "JM177", "JM179", "JM183"} <= codes
    assert "JM181" not in codes
    again = convert(found.after.decode(), model, name=script)
    assert again.after == found.after
    assert "JM182" in {finding.code for finding in again.findings}


@pytest.mark.parametrize("target", ["npu", "agnostic"])
def test_both_targets_name_their_back_end_and_set_this_ranks_device(target):
    text = convert(PLAIN, target=target).after.decode()
    ast.parse(text)
    backend = {"npu": '"hccl"', "agnostic": "torch.distributed.get_default_backend_for_device(DEVICE_TYPE)"}[target]
    device = {"npu": "torch.npu.set_device(LOCAL_RANK)", "agnostic": "torch.accelerator.set_device_index(LOCAL_RANK)"}
    assert f"init_process_group({backend})" in text
    assert device[target] in text
    assert (
        "copy = model.to(LOCAL_DEVICE)"
        in convert(plain(save="copy = model.to('cuda:0')"), target=target).after.decode()
    )


def test_the_parts_of_a_plain_script_are_each_in_their_place():
    found = lines(convert(PLAIN))
    assert "loader = training_loader(data, batch_size=4, shuffle=True)" in found
    at = found.index("model = parallel_model(model)")
    assert found[at + 1] == "for epoch in range(2):"
    assert "rank0_only(torch.save)(model.state_dict(), 'model.pt')" in found
    assert found[-4:] == ["if __name__ == '__main__':", "start_ranks()", "main()", "stop_ranks()"]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("sys.exit(main())\n", "sys.exit(stop_ranks(main()))"),
        ("raise SystemExit(main())\n", "raise SystemExit(stop_ranks(main()))"),
        ("main()  # go", "stop_ranks()"),
    ],
)
def test_the_group_is_left_at_the_end_however_the_script_ends(end, expected):
    source = "import sys\n" + plain(start=end)
    assert lines(convert(source))[-1] == expected


def test_a_guard_on_one_line_starts_and_ends_there():
    source = PLAIN.replace("if __name__ == '__main__':\n    main()\n", "if __name__ == '__main__': main()\n")
    assert lines(convert(source))[-1] == "if __name__ == '__main__': start_ranks(); main(); stop_ranks()"


def test_a_script_without_a_guard_starts_after_its_imports_only_where_it_is_run():
    source = PLAIN.replace("if __name__ == '__main__':\n    main()\n", "main()\n")
    found = lines(convert(source))
    first, last = found.index("start_ranks()"), found.index("stop_ranks()")
    assert found[first - 1] == found[last - 1] == "if __name__ == '__main__':"
    assert first < found.index("def main():") < found.index("main()") < last


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = torch.zeros(1, device='cuda:0')", "x = torch.zeros(1, device=LOCAL_DEVICE)"),
        ("x = torch.device('cuda:1')", "x = torch.device(f'npu:{local_index(1)}')"),
        ("torch.cuda.set_device(gpu)", "torch.npu.set_device(local_index(gpu))"),
        ("model.cuda(gpu)", "model.npu(local_index(gpu))"),
        ("model.cuda()", "model.npu()"),
        ("model.to(f'cuda:{gpu}')", "model.to(f'npu:{local_index(gpu)}')"),
        ("model.to('cuda:{}'.format(gpu))", "model.to('npu:{}'.format(local_index(gpu)))"),
        ("model.to('cuda:' + str(gpu))", "model.to('npu:' + str(local_index(gpu)))"),
        ("model.to('cuda:%d' % gpu)", "model.to('npu:%d' % local_index(gpu))"),
    ],
)
def test_a_device_by_number_becomes_this_ranks(before, after):
    found = lines(convert(plain(model=f"model = torch.nn.Linear(4, 2).cuda()\n    {before}")))
    assert after in found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("os.makedirs('out', exist_ok=True)", "rank0_only(os.makedirs)('out', exist_ok=True)"),
        ("log = open('log.txt', 'w')", "log = open(rank0_path('log.txt'), 'w')"),
        ("log = open('log.txt')", "log = open('log.txt')"),
        ("writer = SummaryWriter('runs')", "writer = rank0_object(SummaryWriter)('runs')"),
        ("bar = tqdm(range(9))", "bar = tqdm(range(9), disable=RANK != 0)"),
        ("bar = tqdm(range(9), disable=None)", "bar = tqdm(range(9), disable=None)"),
        ("wandb.init(project='p')", "wandb.init(project='p', mode=None if RANK == 0 else 'disabled')"),
        ("data = MNIST('d', download=True)", "data = rank0_first(MNIST)('d', download=True)"),
        ("data = MNIST('d', download=False)", "data = MNIST('d', download=False)"),
        ("net = torch.hub.load('a/b', 'c')", "net = rank0_first(torch.hub.load)('a/b', 'c')"),
        ("state = torch.load('old.pt')", "state = torch.load(after_rank0('old.pt'))"),
        ("clone = copy.deepcopy(model)", "clone = copy.deepcopy(bare_model(model))"),
        ("torch.save({'net': model}, 'net.pt')", "rank0_only(torch.save)({'net': bare_model(model)}, 'net.pt')"),
    ],
)  # fmt: skip
def test_one_rank_does_it_for_all(before, after):
    imports = "import copy\nimport os\nimport wandb\nfrom tqdm import tqdm\n"
    imports += "from torch.utils.tensorboard import SummaryWriter\nfrom torchvision.datasets import MNIST\n"
    source = imports + plain(save=f"torch.save(model.state_dict(), 'model.pt')\n    {before}")
    assert after in lines(convert(source))


def test_a_script_chooses_visible_devices_only_where_no_launcher_does():
    found = lines(convert("import os\n" + plain(save="os.environ['CUDA_VISIBLE_DEVICES'] = '0'")))
    assert [line.partition(": ")[0] for line in found if "VISIBLE_DEVICES" in line] == [
        'if "LOCAL_RANK" not in os.environ'
    ]


def test_code_of_a_data_set_does_not_wait_for_other_ranks():
    source = """
        class Own(torch.utils.data.Dataset):
            def __getitem__(self, index):
                os.makedirs('cache')
                return torch.load(f'{index}.pt')
    """
    found = lines(convert("import os\nimport torch\n" + dedent(source) + PLAIN))
    assert "return torch.load(f'{index}.pt')" in found
    assert "os.makedirs('cache')" in found


def test_what_decides_is_agreed_on_and_what_is_the_same_everywhere_is_left():
    step = """optimizer.step()
            if torch.isnan(loss):
                break
            if epoch > 3:
                break"""
    found = lines(convert(plain(step=step)))
    assert "if any_rank(torch.isnan(loss)):" in found
    assert "if epoch > 3:" in found


def test_a_plateau_scheduler_follows_the_mean_of_the_ranks():
    source = plain(save="scheduler.step(loss)\n    scheduler.step()")
    found = lines(convert(source))
    assert "scheduler.step(mean_over_ranks(loss))" in found
    assert "scheduler.step()" in found


def test_a_sum_over_samples_divided_by_all_of_them_is_summed_over_ranks():
    source = plain(
        step="optimizer.step()\n            total += loss.item()",
        save="print(total / len(loader.dataset), total / len(data), total / len(other))",
        model="total = 0\n    model = torch.nn.Linear(4, 2).cuda()",
    )
    expected = (
        "print(sum_over_ranks(total) / len(loader.dataset), sum_over_ranks(total) / len(data), total / len(other))"
    )
    found = lines(convert(source.replace("def main():\n", "def main():\n    data, other = make()\n")))
    assert expected in found


def test_a_script_keeps_its_line_ends_and_its_encoding():
    source = PLAIN.replace("def main():", "def main():\n    # Größe").replace("\n", "\r\n")
    data = b"# -*- coding: latin-1 -*-\r\n" + source.encode("latin-1")
    found = convert_source(data, "a.py", ConvertOptions(distributed=Distributed(main="a.py")))
    assert isinstance(found, Success)
    assert found.after.count(b"\n") == found.after.count(b"\r\n")
    assert "# Größe".encode("latin-1") in found.after


# --- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (plain(make="loader = DataLoader(data, batch_size=4, sampler=own)"), "a sampler of its own"),
        (plain(make="loader = DataLoader(data, batch_sampler=own)"), "a batch_sampler of its own"),
        (plain(make="loader = DataLoader(data, 4, True, own)"), "its sampler by position"),
        (plain(make="loader = batches(data)"), "has no loop over a DataLoader"),
        (plain(loop="for x, y in zip(xs, ys):"), "has no loop over a DataLoader"),
        (plain(loss="loss = model.compute_loss(x, y)"), "`model.compute_loss(...)` computes with the model"),
        (plain(loss="loss = model.encoder(x).mean()"), "`model.encoder(...)` computes with the model"),
        (plain(step="optimizer.step(); model.cpu()"), "the model leaves its device"),
        (plain(loss="loss = model(x).mean()\n            if loss > 1:\n                loss.backward()"),
         "whether it trains on a batch depends on `loss > 1`"),
        (plain(model="model = torch.nn.Linear(4, 2).to('cuda:0')\n    b = torch.zeros(1, device='cuda:1')"),
         "several devices by number (0, 1)"),
        (PLAIN.replace("torch.optim.SGD", "torch.optim.LBFGS"), "LBFGS decides its steps"),
        (PLAIN.replace("torch.optim.SGD", "make_optimizer"), "it makes no optimizer of torch.optim"),
        (PLAIN.replace("model.parameters()", "[weight]"), "not those of a model of this file"),
        (PLAIN.replace("loss.backward()", "pass"), "it runs no backward pass"),
        ("RANK = 3\n" + PLAIN, "it uses the name RANK for something else"),
        ("from my import os\n" + PLAIN, "it uses the name os for something else"),
    ],
)  # fmt: skip
def test_a_script_that_cannot_be_followed_stays_on_one_device(source, reason):
    found = convert(source)
    assert [reason in finding.message for finding in found.findings if finding.code == "JM181"] == [True]
    single = convert_source(source, "a.py", ConvertOptions())
    assert found.after == single.after


def test_an_iterable_data_set_is_refused():
    source = """
        import torch
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self): ...
        data = Stream()
    """
    assert ["IterableDataset" in reason for reason in reasons(dedent(source) + PLAIN)] == [True]


def test_a_model_name_that_does_not_exist_is_answered_with_those_that_do():
    found = [finding for finding in convert(PLAIN, "net").findings if finding.code == "JM181"]
    assert [finding.severity for finding in found] == [Severity.ERROR]
    assert "`net` is no model" in found[0].message
    assert "model" in found[0].action


def test_without_one_of_its_parts_nothing_is_converted():
    options = ConvertOptions(distributed=Distributed(main="a.py"), disable=frozenset({"JM176"}))
    found = convert_source(PLAIN, "a.py", options)
    assert any("JM176 is disabled" in finding.message for finding in found.findings)
    assert b"start_ranks" not in found.after


@pytest.mark.parametrize(
    "line",
    [
        "torch.distributed.init_process_group('nccl')",
        "model = torch.nn.parallel.DistributedDataParallel(model)",
        "torch.multiprocessing.spawn(main)",
        "accelerator = accelerate.Accelerator()",
    ],
)
def test_a_script_with_processes_of_its_own_is_left_alone(line):
    source = "import accelerate\nimport torch.distributed\nimport torch.multiprocessing\n" + plain(save=line)
    if "accelerate." not in line:
        source = source.removeprefix("import accelerate\n")
    found = convert(source)
    assert [finding.severity for finding in found.findings if finding.code == "JM182"] == [Severity.ADVICE]
    assert b"start_ranks" not in found.after
    assert found.after == convert_source(source, "a.py", ConvertOptions()).after


# --- findings that change nothing ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "code", "message"),
    [
        (plain(loss="loss = torch.nn.MSELoss(reduction='sum')(model(x), y)"), "JM177", "is a sum over samples"),
        (plain(model="model = torch.nn.BatchNorm1d(4).cuda()"), "JM177", "Batch normalisation"),
        (plain(step="if (i + 1) % 4 == 0:\n                optimizer.step()"), "JM177", "accumulated"),
        (plain(save="steps = len(data) // 4"), "JM176", "counts the steps of one process"),
        (plain(save="for x, y in loader:\n        print(model(x))"), "JM176", "without a backward pass"),
        (plain(save="path = shutil.copyfile('a', 'b')"), "JM179", "because its result is used"),
    ],
)
def test_what_needs_a_look_is_reported(source, code, message):
    source = "import shutil\n" + source.replace("def main():\n", "def main():\n    data = make()\n")
    found = [finding for finding in convert(source).findings if finding.code == code]
    assert [message in finding.message for finding in found].count(True) == 1


def test_other_files_of_the_project_are_reported_and_not_changed():
    source = "import torch\ndef save(state, path):\n    torch.save(state, path)\n"
    found = convert_source(source, "tools/io.py", ConvertOptions(distributed=Distributed(main="train.py")))
    assert [finding.code for finding in found.findings if finding.code == "JM184"] == ["JM184"]
    assert found.after == source.encode()


def test_without_distributed_no_rule_of_the_group_says_anything():
    found = convert_source(PLAIN, "a.py", ConvertOptions())
    assert not [finding for finding in found.findings if "JM175" <= finding.code <= "JM184"]


def test_a_training_function_of_another_file_gets_the_parallel_model_and_the_shared_loader():
    source = """
        import torch
        from torch.utils.data import DataLoader
        from engine import train_one_epoch, evaluate
        model = torch.nn.Linear(4, 2).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train_loader = DataLoader(a, shuffle=True)
        val_loader = DataLoader(b)
        for epoch in range(3):
            train_one_epoch(model, train_loader, optimizer)
            evaluate(model, val_loader)
    """
    found = lines(convert(dedent(source)))
    assert "train_loader = training_loader(a, shuffle=True)" in found
    assert "val_loader = DataLoader(b)" in found
    assert found[found.index("model = parallel_model(model)") + 1] == "for epoch in range(3):"
