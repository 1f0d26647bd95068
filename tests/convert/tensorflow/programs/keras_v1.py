# ruff: noqa
"""tf.keras as in TensorFlow 1: graphs, and a session of its own making."""

import numpy as np
import tensorflow as tf

tf.compat.v1.disable_eager_execution()
tf.compat.v1.set_random_seed(4)


def model():
    layers, start = tf.keras.layers, tf.compat.v1.keras.initializers.glorot_uniform
    net = tf.keras.Sequential(
        [
            layers.Dense(8, activation="relu", input_shape=(5,), kernel_initializer=start(seed=1)),
            layers.Dense(1, kernel_initializer=start(seed=2)),
        ]
    )
    net.compile(optimizer=tf.compat.v1.train.GradientDescentOptimizer(0.05), loss="mse")
    return net


draw = np.random.RandomState(1)
x = draw.rand(64, 5).astype(np.float32)
y = x.sum(1, keepdims=True)
history = model().fit(x, y, batch_size=16, epochs=4, shuffle=False, verbose=0)
for value in history.history["loss"]:
    print("loss %.9f" % value)
