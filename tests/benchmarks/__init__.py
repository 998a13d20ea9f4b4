"""Benchmarks: medians and ratios beside named baselines, in one run (docs/reference/benchmarks.md). Not for pytest."""
