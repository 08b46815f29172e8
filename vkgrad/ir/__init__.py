"""What a program is: element types, layouts, op records, nodes and walks over them.

This package knows no device, no GLSL and no values.
"""
