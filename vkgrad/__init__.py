"""vkgrad: a small deep-learning framework that trains through Vulkan."""
