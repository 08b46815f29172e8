"""Images in a folder for each class, opened as they are needed. This module must not know batches or tensors.

Reading needs Pillow, the extra `images`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from vkgrad.errors import DataError, DataNotFoundError, OptionError, UnsupportedError

Array = np.ndarray[Any, np.dtype[Any]]

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
MODES = {1: "L", 3: "RGB"}


class ImageFolder:
    """Images and labels from `folder/CLASS/image.png`: what `DataLoader` takes as a data set.

    Indexing gives (image, label): an image (channels, H, W) uint8, and the place of its folder among the sorted ones.

    Args:
        size: (H, W) that every image is resized to, bilinearly; None keeps each as it is.
        channels: 3 for colour, 1 for grey.

    Raises:
        DataNotFoundError: the folder is not there, or has no images in folders of their own.
        UnsupportedError: Pillow is not installed.
        DataError: on indexing, a file is no image or damaged.

    Example:
        >>> import os, tempfile, numpy as np, vkgrad as vg
        >>> from PIL import Image
        >>> folder = tempfile.mkdtemp()
        >>> for name in ("cats", "dogs"):
        ...     os.mkdir(os.path.join(folder, name))
        ...     Image.fromarray(np.zeros((40, 30), np.uint8)).save(os.path.join(folder, name, "1.png"))
        >>> images = vg.data.ImageFolder(folder, size=(28, 28), channels=1)
        >>> images
        ImageFolder of 2 images in grey, at 28 x 28; 2 classes: cats, dogs
        >>> as_floats = lambda x, y: (x.astype(np.float32) / 255, y)
        >>> x, y = next(iter(vg.data.DataLoader(images, batch_size=2, transform=as_floats)))
        >>> x.shape, y.shape
        ((2, 1, 28, 28), (2,))
    """

    def __init__(self, folder: str | os.PathLike[str], size: tuple[int, int] | None = None, channels: int = 3) -> None:
        if channels not in MODES:
            raise OptionError(f"ImageFolder: channels must be 1 or 3, got {channels}")
        try:
            import PIL.Image
        except ImportError as error:
            raise UnsupportedError("ImageFolder needs Pillow: run `pip install vkgrad[images]`") from error
        self._pillow = PIL.Image
        root = Path(folder)
        if not root.is_dir():
            raise DataNotFoundError(f"{folder}: no such folder of images")
        inside = sorted(path for path in root.iterdir() if path.is_dir())
        found = {path: sorted(p for p in path.rglob("*") if p.suffix.lower() in ENDINGS) for path in inside}
        found = {path: images for path, images in found.items() if images}
        if not found:
            raise DataNotFoundError(f"{folder}: no images; put them into a folder for each class, CLASS/image.png")
        self.size, self.channels = size, channels
        self.class_names = tuple(path.name for path in found)
        self.paths = [image for images in found.values() for image in images]
        self.labels = np.repeat(np.arange(len(found), dtype=np.int32), [len(images) for images in found.values()])

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        size = "as they are" if self.size is None else f"at {self.size[0]} x {self.size[1]}"
        channels = "grey" if self.channels == 1 else "colour"
        names = ", ".join(self.class_names[:4]) + (", …" if len(self.class_names) > 4 else "")
        return f"ImageFolder of {len(self):,} images in {channels}, {size}; {len(self.class_names)} classes: {names}"

    def __getitem__(self, index: int) -> tuple[Array, Array]:
        path = self.paths[index]
        try:
            with self._pillow.open(path) as opened:
                image = opened.convert(MODES[self.channels])
        except (OSError, SyntaxError, ValueError):
            raise DataError(f"{path}: not an image, or damaged; take it out or fetch it again") from None
        if self.size is not None and image.size != self.size[::-1]:
            image = image.resize(self.size[::-1], self._pillow.Resampling.BILINEAR)
        array = np.array(image, np.uint8).reshape(image.height, image.width, self.channels)
        return np.moveaxis(array, -1, 0), self.labels[index]
