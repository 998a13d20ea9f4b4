"""Attempts against the cell, one per file: `attempt()` returns how it got through, or raises what stopped it.

The docstring says what is tried, GROUP what it attacks, EXPECT what must stop it, WHY it matters. EXPECT is checked
(`engine.sandbox.attempts` says how). A file may have `control()`, called before in the unprotected container alone: it puts
there what a host without protection would have. Read as text on the host, run only in containers, so an attempt imports the
standard library and `_kernel` beside it, and never does in the control what would change the host.
"""
