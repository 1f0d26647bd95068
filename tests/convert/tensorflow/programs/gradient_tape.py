# ruff: noqa
"""A custom loop of TensorFlow 2 with a GradientTape under tf.function."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(9)


class Net(tf.Module):
    def __init__(self):
        self.w = tf.Variable(tf.random.stateless_normal([4, 3], seed=[1, 2]))
        self.b = tf.Variable(tf.zeros([3]))

    def __call__(self, x):
        with tf.device("/GPU:0"):
            return x @ self.w + self.b


net = Net()
optimizer = tf.keras.optimizers.SGD(0.5)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x)))
    variables = [net.w, net.b]
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


draw = np.random.RandomState(3)
x = tf.constant(draw.rand(30, 4).astype("float32"))
y = tf.constant(draw.randint(0, 3, 30))
for _ in range(8):
    print("loss %.9f" % step(x, y).numpy())
