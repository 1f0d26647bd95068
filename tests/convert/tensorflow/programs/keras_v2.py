# ruff: noqa
"""Keras' fit in TensorFlow 2, with callbacks and a policy for growing GPU memory."""

import numpy as np
import tensorflow as tf

gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)

tf.keras.utils.set_random_seed(3)


class Print(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print("loss %.9f" % logs["loss"])


def main():
    draw = np.random.RandomState(2)
    x = draw.rand(48, 4).astype("float32")
    y = (x @ draw.rand(4, 1)).astype("float32")
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(6, activation="tanh"), tf.keras.layers.Dense(1)])
        model.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss="mse")
    model.fit(x, y, batch_size=16, epochs=4, shuffle=False, verbose=0, callbacks=[Print()])


if __name__ == "__main__":
    main()
