# ruff: noqa
"""A session under Horovod, as in its documentation."""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def main():
    hvd.init()

    # Pin a GPU to be used to process local rank (one GPU per process)
    config = tf.ConfigProto()
    config.gpu_options.allow_growth = True
    config.gpu_options.visible_device_list = str(hvd.local_rank())

    tf.set_random_seed(5)
    draw = np.random.RandomState(hvd.rank())
    x = tf.constant(draw.rand(32, 4).astype(np.float32))
    y = tf.reduce_sum(x, 1, keepdims=True)
    loss = tf.losses.mean_squared_error(y, tf.layers.dense(x, 1))
    optimizer = tf.train.AdagradOptimizer(0.1 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, compression=hvd.Compression.none)
    step = tf.train.get_or_create_global_step()
    train_op = optimizer.minimize(loss, global_step=step)
    mean = hvd.allreduce(loss, average=True)

    hooks = [
        hvd.BroadcastGlobalVariablesHook(0),  # equal at the start
        tf.train.StopAtStepHook(last_step=10 // hvd.size()),
    ]
    checkpoint_dir = None if hvd.rank() == 0 else None
    with tf.train.MonitoredTrainingSession(checkpoint_dir=checkpoint_dir, config=config, hooks=hooks) as session:
        while not session.should_stop():
            _, value = session.run([train_op, mean])
            print("loss %.9f" % value)


if __name__ == "__main__":
    main()
