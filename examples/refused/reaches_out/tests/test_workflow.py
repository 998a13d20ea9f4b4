from .. import reaches_out
from ..steps.attempts import ATTEMPTS


def test_everything_got_through():
    blocked = reaches_out("")
    told = "\n".join(f"  {what}: {why}" for what, why in blocked.items())
    assert not blocked, f"{len(blocked)} of {len(ATTEMPTS)} attempts were blocked:\n{told}"
