"""One target under atheris, in a process of its own: `python -m tests.fuzz.drive TARGET [options of libFuzzer]`.

Runs in the environment that `make fuzz` makes; nothing else imports atheris.
"""

from __future__ import annotations

import sys
from random import Random

import atheris

with atheris.instrument_imports(include=["engine", "cloche_guest", "tomllib"]):
    from tests.fuzz.mutation import MOST_BYTES, mutated_bytes
    from tests.fuzz.targets import TARGETS


def main(argv: list[str]) -> None:
    """Does not return: libFuzzer ends the process."""
    target = TARGETS[argv[1]]

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        """By the target's own mutator, libFuzzer's, or plain bytes: each finds what the others do not."""
        rng = Random(seed)
        choice = rng.random()
        if choice < 0.7:
            return target.mutate(bytes(data), rng)[:most]
        if choice < 0.8:
            return mutated_bytes(bytes(data), rng)[:most]
        return bytes(atheris.Mutate(data, most))

    atheris.Setup([argv[0], f"-max_len={MOST_BYTES}", *argv[2:]], target.check, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
