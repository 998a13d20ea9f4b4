"""Attempts that need a cell of their own: `attempt()` is what the entry of a package does there, and a plain program in the control.

Returning means that it got through, unless EXPECT names what the host must have seen of it: `output cut`, `left out` (of the
output files), `stragglers killed`, `throttled`. Otherwise EXPECT is how the cell must have ended, or what stopped the program.
CONTROL says what counts as through without protection (`_programs_control.py`). Nothing here goes on for long by itself, since
nothing stops it in the control.
"""
