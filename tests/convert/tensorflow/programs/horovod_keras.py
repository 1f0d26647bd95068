# ruff: noqa
"""A custom loop of TensorFlow 2 under Horovod."""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

hvd.init()
gpus = tf.config.experimental.list_physical_devices("GPU")
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([tf.keras.layers.Dense(5, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.05 * hvd.size())
draw = np.random.RandomState(6)
x = tf.constant(draw.rand(40, 3).astype("float32"))
y = tf.reduce_mean(x, 1, keepdims=True)


@tf.function
def training_step(first_batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - y))
    tape = hvd.DistributedGradientTape(tape)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)
    return loss


for batch in range(8 // hvd.size()):
    loss = training_step(batch == 0)
    if hvd.rank() == 0:
        print("loss %.9f" % float(loss))
