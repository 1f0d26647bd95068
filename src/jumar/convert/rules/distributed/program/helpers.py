"""Source text of the helper functions of a converted script. Only functions that are used are written.

They are plain PyTorch. In a process that torchrun did not start, each of them changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Helper:
    """One definition: its text, the modules it names and the helpers it calls."""

    text: str
    imports: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


_HEAD = """\
# One process a device, started by torchrun (run_distributed_npu.sh). Without torchrun the script trains in one
# process as before, and the functions below change nothing.
RANK = int(os.environ.get("RANK", "0")) if "LOCAL_RANK" in os.environ else 0
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1")) if "LOCAL_RANK" in os.environ else 1
LOCAL_DEVICE = @DEVICE@
"""

_START = '''\
def start_ranks():
    """Join the processes of this training; each computes on the device of its own number."""
    if WORLD_SIZE == 1:
        return
    @SET_DEVICE@
    torch.distributed.init_process_group(@BACKEND@)
    if RANK != 0:  # rank 0 prints and logs for all; warnings and errors of every rank stay
        sys.stdout = open(os.devnull, "w")
        logging.disable(logging.INFO)
@SEEDS@'''

_STOP = '''\
def stop_ranks(result=None):
    """Leave the processes of this training at its end; passes on what the training returned."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        time.sleep(0.1)  # threads of Gloo that still hold a tensor need Python to let go of it
    return result
'''

_SEED = '''\
def seed_of_rank0():
    """Return the seed of rank 0, on every rank."""
    seed = torch.tensor([torch.initial_seed() % 2**31], dtype=torch.int32, device=LOCAL_DEVICE)
    torch.distributed.broadcast(seed, 0)
    return int(seed)
'''

_LOADER = '''\
class TrainingSampler(torch.utils.data.distributed.DistributedSampler):
    """Gives each rank its share of the samples, in another order in every epoch."""

    def __iter__(self):
        order = super().__iter__()
        self.set_epoch(self.epoch + 1)
        return order


def training_loader(dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, *args, **kwargs):
    """Return a DataLoader; with several ranks, one over this rank's share. The batch size is that of one rank."""
    if torch.distributed.is_initialized():
        if sampler is not None or batch_sampler is not None or isinstance(dataset, torch.utils.data.IterableDataset):
            raise ValueError("training_loader shares out datasets with a length and no sampler of their own")
        drop_last = kwargs.get("drop_last", False)
        sampler = TrainingSampler(dataset, shuffle=bool(shuffle), seed=seed_of_rank0(), drop_last=drop_last)
        shuffle = None
    return torch.utils.data.DataLoader(dataset, batch_size, shuffle, sampler, batch_sampler, *args, **kwargs)
'''

_MODEL = '''\
class ParallelModel(torch.nn.parallel.DistributedDataParallel):
    """Averages gradients over the ranks; has the attributes, names and state_dict keys of the model it wraps."""

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "module":
                raise
            return getattr(self.module, name)

    def state_dict(self, *args, **kwargs):
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args, **kwargs):
        return self.module.load_state_dict(*args, **kwargs)

    def named_parameters(self, *args, **kwargs):
        return self.module.named_parameters(*args, **kwargs)

    def named_modules(self, *args, **kwargs):
        return self.module.named_modules(*args, **kwargs)


def parallel_model(model, **options):
    """Return a model whose gradients are averaged over the ranks; from here on each rank has its own random numbers."""
    if not torch.distributed.is_initialized() or isinstance(model, torch.nn.parallel.DistributedDataParallel):
        return model
    parallel = ParallelModel(model, device_ids=@DEVICE_IDS@, **options)
    if RANK != 0:
        torch.manual_seed(torch.initial_seed() + RANK)
    return parallel
'''

_DATA_PARALLEL = '''\
def data_parallel(model, *args, **kwargs):
    """Return DataParallel, or with several ranks what stands for it; the keys of its state_dict are the same."""
    if not torch.distributed.is_initialized():
        return torch.nn.DataParallel(model, *args, **kwargs)
    model = model.to(LOCAL_DEVICE)
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=@DEVICE_IDS@)
'''

_BARE = '''\
def bare_model(model):
    """Return the model inside what averages its gradients; anything else as it is."""
    return model.module if isinstance(model, torch.nn.parallel.DistributedDataParallel) else model
'''

_RANK0_ONLY = '''\
def rank0_only(function):
    """Return a function on rank 0; on the others one that does nothing (its arguments are evaluated everywhere)."""
    return function if RANK == 0 else lambda *args, **kwargs: None
'''

_RANK0_PATH = '''\
def rank0_path(path):
    """Return a path to write to on rank 0; on the others one that keeps nothing."""
    return path if RANK == 0 else os.devnull
'''

_RANK0_OBJECT = '''\
class Nothing:
    """Stands on the other ranks for what only rank 0 has: every attribute and call gives it back."""

    def __getattr__(self, name):
        return self

    def __call__(self, *args, **kwargs):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def rank0_object(function):
    """Return what makes an object on rank 0; on the others what makes one that does nothing."""
    return function if RANK == 0 else Nothing()
'''

_RANK0_FIRST = '''\
def rank0_first(function):
    """Return a function that the first rank of each machine runs before the others (downloads, caches)."""

    def call(*args, **kwargs):
        if torch.distributed.is_initialized() and LOCAL_RANK != 0:
            torch.distributed.barrier()
        result = function(*args, **kwargs)
        if torch.distributed.is_initialized() and LOCAL_RANK == 0:
            torch.distributed.barrier()
        return result

    return call
'''

_AFTER_RANK0 = '''\
def after_rank0(path):
    """Return a path to read from, once every rank, rank 0 with its files among them, has come this far."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    return path
'''

_LOCAL_INDEX = '''\
def local_index(index):
    """Return this rank's device in place of one with a fixed number; without ranks the fixed one."""
    if WORLD_SIZE == 1 or isinstance(index, bool):
        return index
    if isinstance(index, torch.device):
        return index if index.index is None else torch.device(index.type, LOCAL_RANK)
    is_number = isinstance(index, int) or (isinstance(index, str) and index.isdigit())
    return type(index)(LOCAL_RANK) if is_number else index
'''

_SUM = '''\
def sum_over_ranks(value):
    """Return the sum of every rank's value, a number or a tensor; anything else as it is."""
    if not torch.distributed.is_initialized() or not isinstance(value, (int, float, torch.Tensor)):
        return value
    total = torch.as_tensor(value).detach().to(LOCAL_DEVICE, torch.float32, copy=True)
    torch.distributed.all_reduce(total)
    return total.to(value.device) if isinstance(value, torch.Tensor) else total.item()
'''

_MEAN = '''\
def mean_over_ranks(value):
    """Return the mean of every rank's value, a number or a tensor; anything else as it is."""
    total = sum_over_ranks(value)
    return value if total is value else total / WORLD_SIZE
'''

_ANY = '''\
def any_rank(condition):
    """Tell whether a condition holds on any rank, so that all of them take the same way."""
    return sum_over_ranks(float(bool(condition))) > 0
'''

HELPERS: dict[str, Helper] = {
    "start_ranks": Helper(_START, ("logging", "sys")),
    "stop_ranks": Helper(_STOP, ("time",)),
    "seed_of_rank0": Helper(_SEED),
    "training_loader": Helper(_LOADER, ("torch.utils.data.distributed",), ("seed_of_rank0",)),
    "parallel_model": Helper(_MODEL, ("torch.nn.parallel",)),
    "data_parallel": Helper(_DATA_PARALLEL, ("torch.nn.parallel",)),
    "bare_model": Helper(_BARE, ("torch.nn.parallel",)),
    "rank0_only": Helper(_RANK0_ONLY),
    "rank0_path": Helper(_RANK0_PATH),
    "rank0_object": Helper(_RANK0_OBJECT),
    "rank0_first": Helper(_RANK0_FIRST),
    "after_rank0": Helper(_AFTER_RANK0),
    "local_index": Helper(_LOCAL_INDEX),
    "sum_over_ranks": Helper(_SUM),
    "mean_over_ranks": Helper(_MEAN, (), ("sum_over_ranks",)),
    "any_rank": Helper(_ANY, (), ("sum_over_ranks",)),
}
"""Name -> definition, in the order they are written."""

NAMES = frozenset(
    {*HELPERS, "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_DEVICE", "TrainingSampler", "ParallelModel", "Nothing"}
)
"""Names the helpers bind at module level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How the target is written, as source text."""

    set_device: str
    """A statement."""
    backend: str
    device: str
    """This rank's device, an expression."""
    device_ids: str


def with_needs(names: Iterable[str]) -> list[str]:
    """Return helpers with all they call, in the order they are written."""
    wanted: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting.extend(HELPERS[name].needs)
    return [name for name in HELPERS if name in wanted]


def block(names: Iterable[str], words: Words, seeds: Iterable[str], known: frozenset[str]) -> str:
    """Return the text of the helpers and their imports but the `known` ones.

    `seeds` are modules whose random numbers all ranks share.

    Lines end with a line feed; the text starts and ends with the code itself, no empty lines.
    """
    sharing = tuple(seeds)
    chosen = with_needs([*names, "start_ranks", "stop_ranks", *(["seed_of_rank0"] if sharing else [])])
    modules = {"os", "torch.distributed", *(module for name in chosen for module in HELPERS[name].imports)} - known
    imports = [f"import {module}" for module in sorted(modules, key=lambda name: (name.startswith("torch"), name))]
    parts = ["\n".join([*imports, "", _HEAD.rstrip("\n")]), *(HELPERS[name].text.rstrip("\n") for name in chosen)]
    text = "\n\n\n".join(parts).replace("\n@SEEDS@", _seeding(sharing)).replace("@SEEDS@", "")
    marks = {
        "SET_DEVICE": words.set_device,
        "BACKEND": words.backend,
        "DEVICE_IDS": words.device_ids,
        "DEVICE": words.device,
    }
    for mark, word in marks.items():
        text = text.replace(f"@{mark}@", word)
    return text


_SEED_CALLS = {
    "random": "random.seed(seed)",
    "numpy": "numpy.random.seed(seed)",
    "torch": "torch.manual_seed(seed)",
}


def _seeding(modules: tuple[str, ...]) -> str:
    """Return the lines that give every rank the same random numbers until the models are wrapped."""
    if not modules:
        return ""
    lines = ["    seed = seed_of_rank0()  # all draw alike until their models are parallel: same weights, same splits"]
    lines += [f"    import {module}" for module in modules if module != "torch"]
    return "\n" + "\n".join([*lines, *(f"    {_SEED_CALLS[module]}" for module in modules)])
