"""What whoever took the supervisor over could become, tried by a program in its place with all that it has."""

from __future__ import annotations

import json

import pytest

from engine.sandbox import uids
from engine.sandbox.service import Sandbox
from tests.helpers.first_process import first_process

pytestmark = [pytest.mark.sandbox, pytest.mark.runc_only("gVisor enforces no profile as it is registered by default")]

OWN, NEIGHBOUR = uids.FIRST + 3, uids.FIRST + 4

BECOME = """
    import json, os

    SEGMENT = os.open("/cloche/out/000001.seg", os.O_WRONLY)

    def tried(change):
        child = os.fork()
        if child == 0:
            try:
                change()
            except OSError as error:
                os._exit(error.errno)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    told = {{}}
    for who, uid in (("own", {own}), ("neighbour", {neighbour}), ("ordinary", 1000)):
        told[f"uid {{who}}"] = tried(lambda: os.setresuid(uid, uid, uid))
        told[f"gid {{who}}"] = tried(lambda: os.setresgid(uid, uid, uid))
    told["kept root"] = tried(lambda: os.setresuid({neighbour}, 0, 0))
    told["effective"] = tried(lambda: os.setresuid(-1, {neighbour}, -1))
    told["saved"] = tried(lambda: os.setresuid({own}, {own}, {neighbour}))
    for name in ("setuid", "setgid", "seteuid", "setegid"):
        told[name] = tried(lambda: getattr(os, name)({neighbour}))
    told["setreuid"] = tried(lambda: os.setreuid({neighbour}, {neighbour}))
    told["setgroups"] = tried(lambda: os.setgroups([{neighbour}]))
    os.write(SEGMENT, json.dumps(told).encode())
"""
EPERM = 1


def told(sandbox: Sandbox, image_id: str, *, uid: int | None) -> dict[str, int]:
    """Errno of every attempt, 0 where it got through."""
    program = BECOME.format(own=OWN, neighbour=NEIGHBOUR)
    with first_process(sandbox, image_id, program, policy=sandbox.policy("run", "runc"), uid=uid) as ended:
        assert ended.exit == 0, ended
        answers = json.loads(ended.said)
    assert isinstance(answers, dict)
    return answers


def test_whoever_took_the_supervisor_over_can_become_its_own_worker_and_nobody_elses(
    sandbox: Sandbox, image_id: str
) -> None:
    answers = told(sandbox, image_id, uid=OWN)
    assert {name for name, errno in answers.items() if errno == 0} == {"uid own", "gid own"}
    assert set(answers.values()) == {0, EPERM}


def test_without_the_rule_it_could_become_a_neighbours(sandbox: Sandbox, image_id: str) -> None:
    """The control: nothing but the rule for one cell stops it."""
    through = {name for name, errno in told(sandbox, image_id, uid=None).items() if errno == 0}
    assert {"uid neighbour", "gid neighbour", "effective", "saved", "kept root"} <= through
