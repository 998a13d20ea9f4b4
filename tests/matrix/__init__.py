"""Which attempt of the probe finds which missing protection: measured, written to docs/reference/probe-matrix.md, and kept true."""
