"""Generated training scripts: converted as a whole or not at all, and twice is once."""

from __future__ import annotations

import ast
from textwrap import indent

from distributed_runs import convert
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jumar.convert import ConvertOptions, convert_source

HEAD = "import os\nimport sys\nimport torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
DATA = "torch.utils.data"

MODELS = [
    "model = nn.Linear(4, 2).cuda()", "model = Net()\nmodel.to('cuda:0')", "model = nn.DataParallel(Net()).cuda()",
    "model = build()", "(model) = Net().to(\n    torch.device('cuda'))  # here", "model: nn.Module = Net().cuda(0)",
    "if args.big:\n    model = Net(2)\nelse:\n    model = Net(1)\nmodel = model.cuda()",
]  # fmt: skip
LOADERS = [
    "loader = DataLoader(data, 4, True)", f"loader = {DATA}.DataLoader(\n    data,  # all\n    shuffle=True,\n)",
    "loader = DataLoader(dataset=data, **options)", "loader, val = DataLoader(data), DataLoader(held)",
    "loader = DataLoader(data, sampler=own)", "loader = make(data)", "loaders = {'train': DataLoader(data), 'val': 1}",
    "loader = DataLoader(data) if args.fast else DataLoader(data, num_workers=2)",
]  # fmt: skip
LOOPS = [
    "for x, y in loader:", "for i, (x, y) in enumerate(loader):", "for x, y in tqdm(loader, desc='t'):",
    "for (x, y), z in zip(loader, range(9)):", "it = iter(loader)\nfor step in range(9):\n    x, y = next(it)",
    "for x, y in loaders['train']:", "for x, y in batches:", "while True:\n    x, y = next(iter(loader))",
]  # fmt: skip
STEPS = [
    "loss = model(x).sum()\nloss.backward()\noptimizer.step()",
    "optimizer.zero_grad(); loss = f(model(x), y); loss.backward(); optimizer.step()",
    "loss = model.loss(x, y)\nloss.backward()",
    "loss = model(x).mean() / 2\nscaler.scale(loss).backward()\nif loss.item() > 9: break",
    "loss = model(x).mean()\nif torch.isnan(loss):\n    continue\nloss.backward()\nmodel.fc.weight.data.clamp_(0)",
    "pass",
]
ENDS = [
    "torch.save(model.state_dict(), 'a.pt')", "print('done'); torch.save(model, 'a.pt')", "sys.exit(0)",
    "if os.path.exists('b'):\n    model.load_state_dict(torch.load('b'))", "return_code = 0",
]  # fmt: skip
OPTIMIZERS = [
    "optimizer = torch.optim.SGD(model.parameters(), 0.1)",
    "optimizer = torch.optim.Adam([{'params': model.parameters()}])",
    "params = [p for p in model.parameters() if p.requires_grad]\noptimizer = torch.optim.AdamW(params)",
    "optimizer = torch.optim.SGD([weight], 0.1)",
]  # fmt: skip
SHAPES = ["top", "main", "guarded", "one line", "split", "class"]


@st.composite
def scripts(draw: st.DrawFn) -> str:
    pick = {name: draw(st.sampled_from(choices)) for name, choices in (
        ("model", MODELS), ("loader", LOADERS), ("loop", LOOPS), ("step", STEPS), ("end", ENDS), ("opt", OPTIMIZERS),
    )}  # fmt: skip
    epochs = draw(st.sampled_from(["", "for epoch in range(3):"]))
    body = indent(pick["step"], "    ")
    loop = f"{pick['loop']}\n{body}"
    setup = "\n".join([pick["model"], pick["loader"], pick["opt"]])
    text = _shaped(draw(st.sampled_from(SHAPES)), setup, loop, epochs, pick["end"])
    text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))
    return text if draw(st.booleans()) else text.rstrip()


def _shaped(shape: str, setup: str, loop: str, epochs: str, end: str) -> str:
    in_epochs = f"{epochs}\n{indent(loop, '    ')}" if epochs else loop
    everything = f"{setup}\n{in_epochs}\n{end}\n"
    if shape == "top":
        return HEAD + everything
    if shape == "split":
        function = f"def train(model, loader, optimizer):\n{indent(loop, '    ')}\n    return loss\n\n\n"
        call = "best = train(model, loader, optimizer)"
        calls = f"{epochs}\n    {call}" if epochs else call
        return f"{HEAD}\n\n{function}{setup}\n{calls}\n{end}\n"
    if shape == "class":
        made = indent(setup.replace("model", "self.model").replace("loader =", "self.loader ="), "        ")
        run = indent(in_epochs.replace("model(", "self.model(").replace("loader", "self.loader"), "        ")
        run = run.replace("optimizer", "self.optimizer")
        made = made.replace("optimizer =", "self.optimizer =")
        trainer = f"class Trainer:\n    def __init__(self, data, args):\n{made}\n\n    def run(self):\n{run}\n\n\n"
        return f"{HEAD}\n\n{trainer}if __name__ == '__main__':\n    Trainer(1, 2).run()\n"
    main = f"def main():\n{indent(everything, '    ')}\n\n"
    calls = {"main": "main()", "guarded": "if __name__ == '__main__':\n    main()",
             "one line": "if __name__ == '__main__': main()"}[shape]  # fmt: skip
    return f"{HEAD}\n\n{main}{calls}\n"


PARTS = ("def start_ranks", "def parallel_model", "class TrainingSampler", "def stop_ranks")


def parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(scripts())
def test_a_script_is_converted_as_a_whole_or_not_at_all_and_only_once(source):
    if not parses(source):
        return
    found = convert(source)
    text = found.after.decode()
    assert parses(text)
    made = [part in text for part in PARTS]
    assert all(made) or not any(made)
    codes = [finding.code for finding in found.findings]
    assert any(made) == ("JM175" in codes)
    assert ("JM181" in codes) != any(made)
    if not any(made):
        assert found.after == convert_source(source, "a.py", ConvertOptions()).after
    else:
        used = {node.func.id for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}  # fmt: skip
        assert {"training_loader", "start_ranks", "stop_ranks"} <= used
        assert used & {"parallel_model", "data_parallel"}
    assert convert(text).after == found.after


def test_the_generated_scripts_hold_some_that_are_converted_and_some_that_are_not():
    good = _shaped(
        "class", "\n".join([MODELS[0], LOADERS[0], OPTIMIZERS[0]]), f"{LOOPS[0]}\n    {STEPS[1]}", "", ENDS[0]
    )
    bad = _shaped("top", "\n".join([MODELS[0], LOADERS[4], OPTIMIZERS[0]]), f"{LOOPS[0]}\n    {STEPS[1]}", "", ENDS[0])
    assert [b"start_ranks" in convert(source).after for source in (good, bad)] == [True, False]
