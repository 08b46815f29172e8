"""How fast vkgrad is, beside what its users would pick instead: each number only after its values are proven.

`python -m benchmarks.race` races training steps, `kernels` times each kernel on the device, `costs` the parts of which
every step is made, `first_step` what a new process waits for. None of this is imported by the package.
"""
