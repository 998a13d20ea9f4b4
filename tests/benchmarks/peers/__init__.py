"""The peers that Cloche is measured beside, each in a process and an environment of its own (.ci/requirements-peers.lock)."""
