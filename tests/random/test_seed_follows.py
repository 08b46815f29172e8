"""The sequence of keys goes on when tensors are made on another device."""

from __future__ import annotations

import vkgrad as vg
from vkgrad import random
from vkgrad.config import config


def test_the_sequence_follows_the_device() -> None:
    vg.manual_seed(3)
    expected = [random.next_key().tolist() for _ in range(4)]
    vg.manual_seed(3)
    found = [random.next_key().tolist() for _ in range(2)]
    vg.flush()
    with config.override(device="cpu"):
        found.append(random.next_key().tolist())
        vg.flush()
    found.append(random.next_key().tolist())
    assert found == expected


def test_it_follows_where_keys_that_nobody_has_read_were_drawn_before() -> None:
    vg.manual_seed(3)
    expected = [random.next_key().tolist() for _ in range(3)]
    vg.manual_seed(3)
    vg.flush()
    pending = random.next_key()
    with config.override(device="cpu"):
        other = random.next_key()
        assert other.device is vg.zeros((1,), device="cpu").device
    found = [pending.tolist(), other.tolist(), random.next_key().tolist()]
    assert found == expected
