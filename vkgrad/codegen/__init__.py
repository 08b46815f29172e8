"""Kernel in, SPIR-V out: rows choose a template, templates are rendered to GLSL, compilers turn that into SPIR-V."""
