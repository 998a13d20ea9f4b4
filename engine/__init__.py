"""The host side of Cloche. Start at `engine.app`: it composes everything below it."""
