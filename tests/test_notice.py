"""What vkgrad warns of is shown at the line of whoever asked for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vkgrad as vg
from vkgrad.config import config
from vkgrad.notice import notice


def test_at_the_callers_line() -> None:
    with pytest.warns(UserWarning, match="look") as caught:
        notice("look")
    assert caught[0].filename == __file__


@pytest.mark.device
def test_host_work_is_noticed_where_it_was_asked_for() -> None:
    x = vg.tensor(np.ones(3))
    with config.override(f64=False):
        if vg.default_device().kind == "cpu":
            return
        with vg.host_policy("warn"), pytest.warns(UserWarning, match="log runs on the host") as caught:
            vg.log(x).numpy()
        assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.device
def test_software_vulkan_is_noticed_once_at_the_users_line(tmp_path: Path) -> None:
    if not getattr(vg.default_device(), "software", False) or vg.default_device().kind == "cpu":
        pytest.skip("this device is no software Vulkan")
    script = tmp_path / "script.py"
    script.write_text("import vkgrad as vg\nx = vg.ones((2,)) + 1\nprint(x)\nprint(x * 2)\n")
    said = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stderr
    assert said.count("Vulkan in software") == 1
    assert f"{script}:3: UserWarning: vkgrad runs on" in said
