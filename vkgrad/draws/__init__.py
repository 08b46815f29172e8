"""What `vkgrad.random` is made of: keys and their bits, and distributions by kind."""
