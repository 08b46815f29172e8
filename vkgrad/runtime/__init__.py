"""Where plans run: a Vulkan device through Kompute, and a NumPy twin that runs the same plans on the CPU."""
