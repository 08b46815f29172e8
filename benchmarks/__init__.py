"""How fast vkgrad is beside what its users would pick instead: each number only after its values are proven.

`python -m benchmarks.race` races training steps, `first_step` what a new process waits for; `tables` writes what was
measured into the README. vkgrad alone is measured by `python -m vkgrad bench`, which needs no checkout.
"""
