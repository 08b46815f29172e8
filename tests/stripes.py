"""A data set of images that is made up in no time, for tests of programs that train on a real one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vkgrad.data import write_idx


def write_stripes(folder: Path, shuffled: bool = False) -> Path:
    """Write 640 + 500 images in the four files of MNIST: class k is a stripe at row 2 k + 4, in noise.

    Where `shuffled`, the labels have nothing to do with the images."""
    generator = np.random.Generator(np.random.Philox(3))
    for part, count in (("train", 640), ("t10k", 500)):
        labels = np.arange(count, dtype=np.uint8) % 10
        images = generator.integers(0, 100, (count, 28, 28)).astype(np.uint8)
        for k in range(3):
            images[np.arange(count), 2 * labels.astype(int) + 4 + k] += 150
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", generator.permutation(labels) if shuffled else labels)
    return folder
