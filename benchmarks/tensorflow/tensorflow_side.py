"""Four networks in TensorFlow: `jumar record -o DIR tensorflow_side.py NETWORK WEIGHTS FORM [FAULT]`.

FORM is how it is trained: `loop` (GradientTape), `function` (tf.function) or `fit` (Keras). FAULT is one of `EXPECTED`
in scoreboard.py, by network.
"""

import sys

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

FAULT = sys.argv[4] if len(sys.argv) > 4 else ""


def has(name):
    return name == FAULT


def pick(name, faulty, right):
    return faulty if has(name) else right


class Cnn(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.conv1 = layers.Conv2D(
            8, 3, padding=pick("padding mode", "valid", "same"), use_bias=not has("missing bias")
        )
        self.bn1 = layers.BatchNormalization(
            momentum=pick("batch norm momentum", 0.1, 0.9), epsilon=pick("batch norm eps", 1e-3, 1e-5)
        )
        self.pool = layers.MaxPooling2D(2, padding=pick("ceil mode", "valid", "same"))
        self.conv2 = layers.Conv2D(16, 3, 2, padding=pick("same padding of a stride", "same", "valid"), use_bias=False)
        self.bn2 = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)
        self.act = layers.Activation(lambda x: tf.nn.gelu(x, approximate=has("gelu form")))
        self.fc = layers.Dense(10)

    def call(self, x, training=None):
        x = self.bn1(self.conv1(x), training=training)
        x = self.pool(tf.clip_by_value(x, 0.0, 1.0) if has("clipped activation") else tf.nn.relu(x))
        x = tf.pad(x, [[0, 0], [0, 6 - x.shape[1]], [0, 6 - x.shape[2]], [0, 0]])
        x = x if has("same padding of a stride") else tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
        x = self.act(self.bn2(self.conv2(x), training=False if has("evaluated batch norm") else training))
        return self.fc(tf.reshape(x, (x.shape[0], -1)))


class Attention(layers.Layer):
    def __init__(self, dim, heads, is_first):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** (-1.0 if has("attention scale") and is_first else -0.5)
        self.query, self.key, self.value = (layers.Dense(dim) for _ in range(3))
        self.softmax = layers.Softmax(axis=1 if has("softmax axis") and is_first else -1)
        self.out = layers.Dense(dim, use_bias=not (has("missing bias") and is_first))

    def call(self, x):
        batch, length, dim = x.shape
        q, k, v = (
            tf.transpose(tf.reshape(layer(x), (batch, length, self.heads, -1)), (0, 2, 1, 3))
            for layer in (self.query, self.key, self.value)
        )
        weights = self.softmax(tf.matmul(q, k, transpose_b=True) * self.scale)
        return self.out(tf.reshape(tf.transpose(tf.matmul(weights, v), (0, 2, 1, 3)), (batch, length, dim)))


class Block(layers.Layer):
    def __init__(self, dim, heads, is_first):
        super().__init__()
        self.norm1 = layers.LayerNormalization(epsilon=1e-3 if has("layer norm eps") and is_first else 1e-5)
        self.attention = Attention(dim, heads, is_first)
        self.norm2 = layers.LayerNormalization(epsilon=1e-5)
        self.up, self.down = layers.Dense(64), layers.Dense(dim)
        approximate = has("gelu form") and is_first
        self.act = layers.Activation(lambda x: tf.nn.gelu(x, approximate=approximate))
        self.drop = layers.Dropout(0.5 if has("dropout probability") and is_first else 0.0)
        self.is_wrong = is_first

    def call(self, x, training=None):
        if has("norm after") and self.is_wrong:
            x = self.norm1(x + self.attention(x))
        else:
            x = x + self.attention(self.norm1(x))
        y = self.drop(self.down(self.act(self.up(self.norm2(x)))), training=training)
        return y if has("lost residual") and self.is_wrong else x + y


class Transformer(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding, self.position = layers.Embedding(50, 32), layers.Embedding(12, 32)
        self.block0, self.block1 = Block(32, 4, False), Block(32, 4, True)
        self.norm, self.head = layers.LayerNormalization(epsilon=1e-5), layers.Dense(50)

    def call(self, x, training=None):
        places = tf.range(x.shape[1])
        h = self.embedding(x) + self.position((places + 1) % 12 if has("position off by one") else places)
        h = self.block1(self.block0(h, training=training), training=training)
        return tf.reshape(self.head(self.norm(h)), (-1, 50))


class UNet(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.down1 = layers.Conv2D(8, 3, padding="same")
        self.norm1 = layers.BatchNormalization(momentum=pick("batch norm momentum", 0.5, 0.9), epsilon=1e-5)
        self.act1 = layers.ReLU(6.0) if has("relu6") else layers.ReLU()
        self.pool = layers.MaxPooling2D(2) if has("max for average") else layers.AveragePooling2D(2)
        self.down2 = layers.Conv2D(16, 3, padding="same", dilation_rate=pick("dilation", 2, 1))
        self.norm2 = layers.GroupNormalization(
            pick("number of groups", 2, 4), epsilon=pick("group norm eps", 1e-2, 1e-5)
        )
        self.act2 = layers.LeakyReLU(pick("slope", 0.2, 0.1))
        self.up = layers.Conv2DTranspose(8, 2, 2)
        self.merge, self.out = layers.Conv2D(8, 3, padding="same"), layers.Conv2D(1, 1)

    def call(self, x, training=None):
        skip = self.act1(self.norm1(self.down1(x), training=training))
        deep = self.act2(self.norm2(self.down2(self.pool(skip))))
        parts = [skip, self.up(deep)]
        joined = tf.concat(parts[::-1] if has("order of joined parts") else parts, -1)
        return self.out(tf.tanh(self.merge(joined)))


class Wide(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.user, self.item = layers.Embedding(30, 12), layers.Embedding(60, 12)
        self.norm = layers.LayerNormalization(epsilon=pick("layer norm eps", 1e-2, 1e-5))
        self.fc1, self.act = layers.Dense(32), layers.ELU()
        self.fc2, self.fc3 = layers.Dense(16), layers.Dense(1, use_bias=not has("missing bias"))

    def call(self, inputs, training=None):
        parts = [self.user(inputs[0]), self.item(inputs[1])]
        x = self.norm(tf.concat(parts[::-1] if has("order of joined parts") else parts, 1))
        h = self.fc2(self.act(self.fc1(x)))
        h = tf.clip_by_value(h / 6.0 + 0.5, 0.0, 1.0) if has("hard sigmoid") else tf.sigmoid(h)
        return tf.reshape(self.fc3(h), (-1,))


NETWORKS = {"cnn": Cnn, "transformer": Transformer, "unet": UNet, "wide": Wide}


def optimizer_of(network):
    optimizers = tf.keras.optimizers
    if network in {"cnn", "unet"}:
        return optimizers.SGD(pick("learning rate", 0.5, 0.05), momentum=pick("momentum", 0.5, 0.9))
    if network == "transformer":
        return optimizers.SGD(pick("learning rate", 0.5, 0.05))
    return optimizers.Adam(0.01, beta_2=pick("adam beta2", 0.9, 0.999), epsilon=pick("adam eps", 1e-3, 1e-8))


def loss_of(network):
    losses = tf.keras.losses
    reduction = pick("sum for mean", "sum", "sum_over_batch_size")
    if network == "unet":
        return losses.MeanSquaredError(reduction=reduction)
    if network == "wide":
        # Keras takes the mean over the last dimension; one number a row makes it that of the batch.
        binary = losses.BinaryCrossentropy(from_logits=True, reduction=reduction)
        return lambda target, output: binary(tf.reshape(target, (-1, 1)), tf.reshape(output, (-1, 1)))
    return losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)


def load(model, arrays):
    """Set the variables of each layer from PyTorch's arrays, whose paths are the attributes' names."""
    known = {name.partition(":")[2]: value for name, value in arrays.items() if name.startswith("weight:")}
    paths = sorted({name.rpartition(".")[0] for name in known})
    for path in paths:
        layer = model
        for part in path.split("."):
            layer = getattr(layer, part)
        values = {}
        for variable in layer.variables:
            name = getattr(variable, "path", variable.name).split(":")[0].rpartition("/")[2]
            torch_name = {"kernel": "weight", "gamma": "weight", "embeddings": "weight", "bias": "bias", "beta": "bias",
                          "moving_mean": "running_mean", "moving_variance": "running_var"}[name]  # fmt: skip
            values[name] = in_order(known[f"{path}.{torch_name}"], path, name)
        if has("default initialiser") and path in {"conv2", "block1.up", "down2", "fc2"}:
            continue
        layer.set_weights(
            [values[getattr(one, "path", one.name).split(":")[0].rpartition("/")[2]] for one in layer.weights]
        )


def in_order(value, path, name):
    if name == "kernel" and value.ndim == 4:
        return value.transpose(2, 3, 1, 0)
    if name == "kernel":
        if path == "fc" and value.shape == (10, 144):  # it reads a flattened image
            value = value.reshape(10, 16, 3, 3).transpose(0, 2, 3, 1).reshape(10, 144)
        is_first = path in {"fc", "block1.attention.query"}
        return np.ascontiguousarray(value if has("transposed weight") and is_first else value.T).reshape(value.T.shape)
    if name == "embeddings" and path == "user" and has("swapped tables"):
        return value[::-1]
    return value


def signature(x, y):
    return tf.nest.map_structure(lambda one: tf.TensorSpec(one.shape, one.dtype), (x, y))


def main(network, weights, form):
    tf.keras.utils.set_random_seed(3)
    arrays = dict(np.load(weights))
    model, data = NETWORKS[network](), []
    for step in range(sum(name.startswith("target:") for name in arrays)):
        inputs = [value for name, value in arrays.items() if name.startswith(f"input:{step}:")]
        inputs = [value[::-1].copy() if has("other data") else value for value in inputs]
        target = arrays[f"target:{step}"]
        inputs, target = (
            [np.moveaxis(one, 1, -1) if one.ndim == 4 else one for one in many] for many in (inputs, [target])
        )
        data.append((inputs if len(inputs) > 1 else inputs[0], target[0]))
    model(data[0][0])
    load(model, arrays)
    if has("frozen parameter"):
        model.down2.trainable = False
    optimizer, loss_fn = optimizer_of(network), loss_of(network)
    if form == "fit":
        model.compile(optimizer, loss_fn)
        pairs = [(tuple(x) if isinstance(x, list) else x, y) for x, y in data]
        source = tf.data.Dataset.from_generator(lambda: iter(pairs), output_signature=signature(*pairs[0]))
        model.fit(source, verbose=0)
        return

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    step = tf.function(step) if form == "function" else step
    for x, y in data:
        print(float(step(tf.nest.map_structure(tf.constant, x), tf.constant(y))))


if __name__ == "__main__":
    main(*sys.argv[1:4])
