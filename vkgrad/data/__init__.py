"""Data on the host: IDX and CSV files, folders of images, image sets found on this machine, and batches on their way to
the device.

Everything here works on NumPy arrays; only `DataLoader` makes tensors, one batch at a time, as it hands them out.
"""

from vkgrad.data.folders import ImageFolder
from vkgrad.data.idx import read_idx, write_idx
from vkgrad.data.loader import DataLoader
from vkgrad.data.pinned import pin_memory
from vkgrad.data.sources import Dataset, Split, digits, fashion_mnist, mnist
from vkgrad.data.splitting import Subset, random_split
from vkgrad.data.tables import read_csv
from vkgrad.elsewhere import DATA
from vkgrad.spelling import answer_misspellings

__all__ = [
    "DataLoader", "Dataset", "ImageFolder", "Split", "Subset", "digits", "fashion_mnist", "mnist", "pin_memory",
    "random_split", "read_csv", "read_idx", "write_idx",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


answer_misspellings(globals(), DATA)
