"""The command line. Thin: every verb calls `engine.app` and prints what it returns."""
