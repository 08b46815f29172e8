"""Data on the host: IDX files, the image sets found on this machine, and batches on their way to the device.

Everything here works on NumPy arrays; only `DataLoader` makes tensors, one batch at a time, as it hands them out.
"""

from vkgrad.data.idx import read_idx, write_idx
from vkgrad.data.loader import DataLoader
from vkgrad.data.pinned import pin_memory
from vkgrad.data.sources import Dataset, Split, digits, fashion_mnist, mnist

__all__ = ["DataLoader", "Dataset", "Split", "digits", "fashion_mnist", "mnist", "pin_memory", "read_idx", "write_idx"]
