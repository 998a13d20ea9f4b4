"""The long crash matrix: every moment, every victim, real cells, and a thousand kills at random ones. `make chaos`."""
