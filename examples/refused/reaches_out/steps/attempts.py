"""Ways out, each of which would work for an ordinary program."""

import asyncio
from pathlib import Path


async def connect():
    """Send a byte to a public name server."""
    _, writer = await asyncio.open_connection("1.1.1.1", 53)
    writer.write(b"x")
    await writer.drain()


async def resolve():
    """Look up a name."""
    await asyncio.open_connection("example.org", 80)


async def listen():
    """Wait for connections. A server without a socket is what asyncio gives when none could be made."""
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    sockets = server.sockets
    server.close()
    if not sockets:
        raise OSError("no socket could be made")


async def speak_to_the_engine():
    """Open the socket of the container engine."""
    await asyncio.open_unix_connection("/var/run/docker.sock")


async def read_passwords():
    """Read the password hashes."""
    Path("/etc/shadow").read_bytes()


async def read_the_supervisor():
    """Open the memory of process 1."""
    Path("/proc/1/mem").open("rb").close()


async def look_at_the_host():
    """List the home of root."""
    list(Path("/root").iterdir())


async def change_the_program():
    """Write beside the modules that run it."""
    Path("/opt/cloche/cloche/planted.py").write_text("x = 1\n")


async def change_the_exchange():
    """Write into the folder through which the host is spoken to."""
    Path("/cloche/out/planted").write_text("x")


async def start_a_shell():
    """Run a command."""
    loop = asyncio.get_running_loop()
    await loop.subprocess_exec(asyncio.SubprocessProtocol, "/bin/sh", "-c", "true")


ATTEMPTS = {
    "connect to 1.1.1.1": connect,
    "resolve example.org": resolve,
    "listen on a port": listen,
    "open the engine's socket": speak_to_the_engine,
    "read /etc/shadow": read_passwords,
    "open /proc/1/mem": read_the_supervisor,
    "list /root": look_at_the_host,
    "write into /opt/cloche": change_the_program,
    "write into /cloche/out": change_the_exchange,
    "start a shell": start_a_shell,
}
