"""The comparison with frozen results fails on what is wrong by little."""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden.compare import RELATIVE, assert_close

EXPECTED = np.array([[1.0, -4.0], [2.0, 0.5]])


@pytest.mark.parametrize("kind", RELATIVE)
def test_errors_above_the_tolerance_fail_and_errors_below_pass(kind: str) -> None:
    error = np.zeros((2, 2))
    error[1, 1] = 4.0 * RELATIVE[kind]
    assert_close(EXPECTED + 0.9 * error, EXPECTED, kind)
    with pytest.raises(AssertionError, match="of the largest"):
        assert_close(EXPECTED + 1.1 * error, EXPECTED, kind)


@pytest.mark.parametrize("wrong", [EXPECTED.T, EXPECTED[:1], EXPECTED * np.nan, EXPECTED + np.inf, EXPECTED.ravel()])
def test_other_values_and_shapes_fail(wrong: np.ndarray) -> None:
    with pytest.raises(AssertionError):
        assert_close(wrong, EXPECTED, "gradient")
