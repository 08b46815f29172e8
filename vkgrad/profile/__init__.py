"""How long each kernel takes, by the device's own clock: in a block (`vg.profile`), or of one step taken apart.

Everything here subscribes to the engine or reads what it made; the core does not know of it.
"""

from vkgrad.profile.clock import KernelTime, StepTimes, time_kernels
from vkgrad.profile.watch import Profile, profile
