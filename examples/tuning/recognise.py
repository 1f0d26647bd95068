"""Recognises digits and says how many are right and how long an image takes. Knows nothing of tuning.

python recognise.py                    as it is
jumar run --tuned recognise.py         as the bank says
"""

from __future__ import annotations

import argparse
import time

import torch
from digits import digits, trained


def main() -> None:
    """Train for a few seconds, recognise, and print the share of right digits and the time of a batch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--steps", type=int, default=60, help="of training")
    options = parser.parse_args()
    model = torch.compile(trained(options.steps))
    right, times = 0, []
    with torch.no_grad():
        for number in range(options.batches):
            images, labels = digits(16, seed=20_000 + number)
            start = time.perf_counter()
            scores = model(images)
            times.append(time.perf_counter() - start)
            right += int((scores.argmax(1) == labels).sum())
    median_ms = 1e3 * sorted(times)[len(times) // 2]
    print(f"{100 * right / (16 * options.batches):.1f} % right, {median_ms:.3f} ms for 16 images")


if __name__ == "__main__":
    main()
