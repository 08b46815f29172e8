"""What every test of optimisers and schedules asserts beside values: that nothing was computed on the host."""

from tests.nn.conftest import nothing_on_the_host

__all__ = ["nothing_on_the_host"]
