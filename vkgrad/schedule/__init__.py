"""Which nodes share a kernel, in what order and level, in which memory: nodes in, a `Plan` out.

    simplify -> split -> fuse -> lower -> memory -> Plan

No pass touches a device or knows GLSL; what a device wants (how much at once, how many buffers) comes in as numbers.
"""
