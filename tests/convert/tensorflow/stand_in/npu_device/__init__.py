"""As much of the adapter of TensorFlow 2.6 as the converted programs need, for one process on the CPU."""


class _Device:
    def as_default(self):
        return self


def open(device_id=0):
    assert device_id == 0
    return _Device()


class distribute:
    @staticmethod
    def all_reduce(values, reduction):
        assert reduction == "mean"
        return values

    @staticmethod
    def broadcast(values, root_rank=0):
        del values, root_rank
