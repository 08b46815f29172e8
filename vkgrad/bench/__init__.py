"""How fast vkgrad is here: each number only after its values are proven. `python -m vkgrad bench` prints it.

contender   what is timed, and the stopwatch: the same code for vkgrad and for every peer in `benchmarks.race`
cases       the models, their weights and batches, in NumPy; `reference` trains them in float64
guards      what must hold before a time may be printed
training    the models in vkgrad, jitted or not
models      steps as a whole; `kernels` one by one; `step` into host, submission, device and waiting
peaks       what this device can do at most; `costs` and `memory` what its runtime takes
"""
