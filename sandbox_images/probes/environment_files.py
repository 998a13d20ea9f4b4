"""Find a file where credentials are usually kept."""

import os

from _kernel import NothingFound

GROUP = "environment"
EXPECT = "NothingFound"
WHY = "Tools leave them in well-known places."

OF_A_HOME = (
    ".ssh/id_ed25519",
    ".ssh/id_rsa",
    ".aws/credentials",
    ".config/gcloud",
    ".docker/config.json",
    ".netrc",
    ".kube/config",
)
ELSEWHERE = (
    "/run/secrets",
    "/var/run/secrets",
    "/etc/shadow",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/docker/key.json",
)


def control() -> None:
    os.makedirs("/root/.ssh", exist_ok=True)
    with open("/root/.ssh/id_ed25519", "w") as file:
        file.write("planted")


def attempt() -> str:
    homes = ("/root", os.environ.get("HOME", "/"), *(f"/home/{name}" for name in _names("/home")))
    places = [*(f"{home}/{name}" for home in homes for name in OF_A_HOME), *ELSEWHERE]
    for place in places:
        if os.path.exists(place):
            return f"found {place}"
    raise NothingFound(f"none of {len(places)} places")


def _names(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []
