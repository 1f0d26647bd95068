"""The five networks in MindSpore: `jumar record -o DIR --device cpu mindspore_side.py NETWORK WEIGHTS FORM [FAULT]`.

FORM is how it is trained: `cell` (TrainOneStepCell), `model` (Model.train), `function` (value_and_grad) or `operation`
(GradOperation). FAULT is one of `EXPECTED` in scoreboard.py, by network.
"""

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.experimental.optim import Adam

FAULT = sys.argv[4] if len(sys.argv) > 4 else ""
NAMES = {"weight": ("gamma", "embedding_table"), "bias": ("beta",), "running_mean": ("moving_mean",),
         "running_var": ("moving_variance",)}  # fmt: skip


def has(name):
    return name == FAULT


def pick(name, faulty, right):
    return faulty if has(name) else right


class Cnn(nn.Cell):
    def __init__(self):
        super().__init__()
        same = {"pad_mode": "pad", "padding": 1}
        first = pick("padding mode", {"pad_mode": "valid"}, same)
        self.conv1 = nn.Conv2d(3, 8, 3, **first, has_bias=not has("missing bias"))
        self.bn1 = nn.BatchNorm2d(
            8, momentum=pick("batch norm momentum", 0.1, 0.9), eps=pick("batch norm eps", 1e-3, 1e-5)
        )
        self.pool = nn.MaxPool2d(2, 2, pad_mode="pad", ceil_mode=not has("ceil mode"))
        second = pick("same padding of a stride", {"pad_mode": "same"}, same)
        self.conv2 = nn.Conv2d(8, 16, 3, 2, **second)
        self.bn2 = nn.BatchNorm2d(16, momentum=0.9, use_batch_statistics=pick("evaluated batch norm", False, None))
        self.act = nn.GELU(approximate=has("gelu form"))
        self.fc = nn.Dense(16 * pick("ceil mode", 9, 9), 10)

    def construct(self, x):
        x = self.bn1(self.conv1(x))
        x = self.pool(ops.clamp(x, 0, 1) if has("clipped activation") else ops.relu(x))
        if x.shape[2] == 5:
            x = ops.pad(x, (0, 1, 0, 1))
        elif x.shape[2] == 4:
            x = ops.pad(x, (0, 2, 0, 2))
        x = self.act(self.bn2(self.conv2(x)))
        return self.fc(x.reshape(x.shape[0], -1))


class Attention(nn.Cell):
    def __init__(self, dim, heads, is_first):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** (-1.0 if has("attention scale") and is_first else -0.5)
        self.query, self.key, self.value = nn.Dense(dim, dim), nn.Dense(dim, dim), nn.Dense(dim, dim)
        self.softmax = nn.Softmax(axis=1 if has("softmax axis") and is_first else -1)
        self.out = nn.Dense(dim, dim, has_bias=not (has("missing bias") and is_first))

    def construct(self, x):
        batch, length, dim = x.shape
        q, k, v = (
            layer(x).reshape(batch, length, self.heads, -1).transpose(0, 2, 1, 3)
            for layer in (self.query, self.key, self.value)
        )
        weights = self.softmax(ops.matmul(q, k.swapaxes(2, 3)) * self.scale)
        return self.out(ops.matmul(weights, v).transpose(0, 2, 1, 3).reshape(batch, length, dim))


class Block(nn.Cell):
    def __init__(self, dim, heads, is_first):
        super().__init__()
        default = has("layer norm eps") and is_first
        self.norm1 = nn.LayerNorm((dim,)) if default else nn.LayerNorm((dim,), epsilon=1e-5)
        if has("layer norm eps"):
            self.norm1.epsilon = 1e-3 if is_first else 1e-5
            self.norm1.layer_norm = ops.LayerNorm(-1, -1, self.norm1.epsilon)
        self.attention = Attention(dim, heads, is_first)
        self.norm2 = nn.LayerNorm((dim,), epsilon=1e-5)
        self.up, self.act, self.down = (
            nn.Dense(dim, 64),
            nn.GELU(approximate=has("gelu form") and is_first),
            nn.Dense(64, dim),
        )
        self.drop = nn.Dropout(p=0.5 if has("dropout probability") and is_first else 0.0)
        self.is_wrong = is_first

    def construct(self, x):
        if has("norm after") and self.is_wrong:
            x = self.norm1(x + self.attention(x))
        else:
            x = x + self.attention(self.norm1(x))
        y = self.drop(self.down(self.act(self.up(self.norm2(x)))))
        return y if has("lost residual") and self.is_wrong else x + y


class Transformer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(50, 32), nn.Embedding(12, 32)
        self.block0, self.block1 = Block(32, 4, False), Block(32, 4, True)
        self.norm, self.head = nn.LayerNorm((32,), epsilon=1e-5), nn.Dense(32, 50)

    def construct(self, x):
        places = ops.arange(x.shape[1])
        h = self.embedding(x) + self.position((places + 1) % 12 if has("position off by one") else places)
        return self.head(self.norm(self.block1(self.block0(h)))).reshape(-1, 50)


class Lstm(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 16, padding_idx=pick("padding index", 3, None))
        self.lstm = nn.LSTM(16, 24, batch_first=not has("batch first"), has_bias=not has("missing bias"))
        self.norm, self.fc = nn.LayerNorm((24,), epsilon=pick("layer norm eps", 1e-2, 1e-5)), nn.Dense(24, 6)

    def construct(self, x):
        output, _ = self.lstm(self.embedding(x))
        pooled = output[:, -1] if has("last state") else output.mean(1)
        return self.fc(self.norm(pooled))


class UNet(nn.Cell):
    def __init__(self):
        super().__init__()
        pad = {"pad_mode": "pad", "padding": 1, "has_bias": True}
        self.down1 = nn.Conv2d(1, 8, 3, **pad)
        self.norm1 = nn.BatchNorm2d(8, momentum=pick("batch norm momentum", 0.5, 0.9))
        self.act1 = nn.ReLU6() if has("relu6") else nn.ReLU()
        self.pool = nn.MaxPool2d(2, 2) if has("max for average") else nn.AvgPool2d(2, 2)
        dilated = {"pad_mode": "pad", "padding": 2, "dilation": 2, "has_bias": True} if has("dilation") else pad
        self.down2 = nn.Conv2d(8, 16, 3, **dilated)
        self.norm2 = nn.GroupNorm(pick("number of groups", 2, 4), 16, eps=pick("group norm eps", 1e-2, 1e-5))
        self.act2 = nn.LeakyReLU(pick("slope", 0.2, 0.1))
        self.up = nn.Conv2dTranspose(16, 8, 2, 2, pad_mode="valid", has_bias=True)
        self.merge, self.out = nn.Conv2d(16, 8, 3, **pad), nn.Conv2d(8, 1, 1, has_bias=True)

    def construct(self, x):
        skip = self.act1(self.norm1(self.down1(x)))
        deep = self.act2(self.norm2(self.down2(self.pool(skip))))
        parts = (skip, self.up(deep))
        joined = ops.cat(parts[::-1] if has("order of joined parts") else parts, 1)
        return self.out(ops.tanh(self.merge(joined)))


class Wide(nn.Cell):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Embedding(30, 12), nn.Embedding(60, 12)
        self.norm = nn.LayerNorm((24,), epsilon=pick("layer norm eps", 1e-2, 1e-5))
        self.fc1, self.act = nn.Dense(24, 32), nn.ELU(1.0)
        self.fc2, self.fc3 = nn.Dense(32, 16), nn.Dense(16, 1, has_bias=not has("missing bias"))

    def construct(self, users, items):
        parts = (self.user(users), self.item(items))
        x = self.norm(ops.cat(parts[::-1] if has("order of joined parts") else parts, 1))
        h = self.fc2(self.act(self.fc1(x)))
        return self.fc3(ops.hardsigmoid(h) if has("hard sigmoid") else ops.sigmoid(h)).reshape(-1)


NETWORKS = {"cnn": Cnn, "transformer": Transformer, "lstm": Lstm, "unet": UNet, "wide": Wide}


class AdamInside(nn.Optimizer):
    """Adam with its eps under the root: another place than PyTorch's and MindSpore's own."""

    def __init__(self, parameters, learning_rate, eps):
        super().__init__(learning_rate, parameters)
        self.eps, self.beta1, self.beta2 = eps, 0.9, 0.999
        self.first, self.second = (self.parameters.clone(prefix=name, init="zeros") for name in ("first", "second"))
        self.count = 0

    def construct(self, gradients):
        self.count += 1
        for one, m, v, g in zip(self.parameters, self.first, self.second, gradients, strict=True):
            ops.assign(m, 0.9 * m + 0.1 * g)
            ops.assign(v, 0.999 * v + 0.001 * g * g)
            corrected = v / (1 - 0.999**self.count)
            ops.assign(one, one - 0.01 * (m / (1 - 0.9**self.count)) / ops.sqrt(corrected + self.eps))
        return True


def optimizer_of(network, model):
    parameters = model.trainable_params()
    if has("frozen parameter"):
        parameters = [one for one in parameters if not one.name.startswith("down2")]
    if network in {"cnn", "unet"}:
        rate = pick("learning rate", 0.5, 0.05)
        return nn.Momentum(parameters, rate, pick("momentum", 0.5, 0.9))
    if network == "transformer":
        if has("weight decay on norms"):
            return nn.SGD([{"params": parameters, "weight_decay": 0.1}], 0.05)
        norms = [one for one in parameters if "norm" in one.name]
        others = [one for one in parameters if "norm" not in one.name]
        return nn.SGD([{"params": others, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}], 0.05)
    if has("adam eps place"):
        return AdamInside(parameters, 0.01, 1e-6)
    rate, eps, decay = pick("learning rate", 0.001, 0.01), pick("adam eps", 1e-3, 1e-8), pick("weight decay", 0.1, 0.0)
    beta = pick("adam beta2", 0.9, 0.999)
    if network == "lstm" or sys.argv[3] == "model":  # Model takes the older optimizers only
        return nn.Adam(parameters, rate, beta2=beta, eps=eps, weight_decay=decay)
    return Adam(parameters, rate, betas=(0.9, beta), eps=eps, weight_decay=decay)


def loss_of(network):
    if network == "unet":
        return nn.MSELoss(reduction=pick("sum for mean", "sum", "mean"))
    if network == "wide":
        return nn.BCEWithLogitsLoss(reduction=pick("sum for mean", "sum", "mean"))
    if has("label smoothing"):
        return nn.CrossEntropyLoss(label_smoothing=0.1)
    return nn.CrossEntropyLoss(reduction=pick("sum for mean", "sum", "mean"))


def load(model, arrays):
    known = {name.partition(":")[2]: value for name, value in arrays.items() if name.startswith("weight:")}
    for one in model.get_parameters():
        path, _, last = one.name.rpartition(".")
        names = [last, *(torch for torch, others in NAMES.items() if last in others)]
        value = next((known[full] for name in names if (full := f"{path}.{name}".lstrip(".")) in known), None)
        if value is None:
            continue
        is_first_linear = one.name in {"fc.weight", "block1.attention.query.weight", "lstm.weight_hh_l0"}
        if has("default initialiser") and one.name in {
            "conv2.weight",
            "block1.up.weight",
            "fc.weight",
            "down2.weight",
            "fc2.weight",
        }:
            continue
        if has("transposed weight") and is_first_linear:
            value = np.ascontiguousarray(value.T).reshape(value.shape)
        if has("swapped tables") and one.name == "user.embedding_table":
            value = value[::-1].copy()
        one.set_data(Tensor(value.astype(np.float32)))


def train(form, model, loss_fn, optimizer, data):
    if form == "cell":
        many = len(data[0][0]) > 1
        with_loss = Together(model, loss_fn) if many else nn.WithLossCell(model, loss_fn)
        step = nn.TrainOneStepCell(with_loss, optimizer).set_train()
        for inputs, target in data:
            print(step(*inputs, target))
        return
    model.set_train()

    def forward(*tensors):
        return loss_fn(model(*tensors[:-1]), tensors[-1])

    if form == "function":
        gradients = ms.value_and_grad(forward, None, optimizer.parameters)
        for inputs, target in data:
            loss, found = gradients(*inputs, target)
            optimizer(found)
            print(loss)
        return
    if form == "operation":
        network = Together(model, loss_fn)
        operation = ops.GradOperation(get_by_list=True)
        for inputs, target in data:
            optimizer(operation(network, optimizer.parameters)(*inputs, target))
        return
    columns = [f"input{place}" for place in range(len(data[0][0]))] + ["target"]
    rows = [tuple(value.asnumpy() for value in (*inputs, target)) for inputs, target in data]
    source = ms.dataset.GeneratorDataset(rows, columns, shuffle=False)
    ms.train.Model(Together(model, loss_fn), optimizer=optimizer).train(1, source, dataset_sink_mode=False)


class Together(nn.Cell):
    def __init__(self, model, loss_fn):
        super().__init__(auto_prefix=False)
        self.model, self.loss_fn = model, loss_fn

    def construct(self, *tensors):
        return self.loss_fn(self.model(*tensors[:-1]), tensors[-1])


def main(network, weights, form):
    ms.set_seed(3)
    arrays = dict(np.load(weights))
    model = NETWORKS[network]()
    load(model, arrays)
    data = []
    for step in range(sum(name.startswith("target:") for name in arrays)):
        inputs = [value for name, value in arrays.items() if name.startswith(f"input:{step}:")]
        if has("other data"):
            inputs = [value[::-1].copy() for value in inputs]
        target = arrays[f"target:{step}"]
        tensors = [
            Tensor(value if value.dtype == np.float32 else value.astype(np.int32)) for value in (*inputs, target)
        ]
        data.append((tensors[:-1], tensors[-1]))
    train(form, model, loss_of(network), optimizer_of(network, model), data)


if __name__ == "__main__":
    main(*sys.argv[1:4])
