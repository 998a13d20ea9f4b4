"""What honest code does in a cell, as small scripts: each prints `ok`. Used to see what the list of system calls must hold.

Each script runs in an interpreter of its own, so that one that hangs or dies for want of a call tells of itself alone.
"""

from __future__ import annotations

from pathlib import Path

STEPS: dict[str, str] = {
    "files": """
        os.chdir("/tmp"); os.makedirs("f/g"); p = "f/a"
        with open(p, "w+b") as f:
            f.write(b"x" * 9000); f.flush(); f.seek(3); f.read(5); f.truncate(100); os.fsync(f.fileno())
            os.fdatasync(f.fileno()); os.pread(f.fileno(), 3, 1); os.pwrite(f.fileno(), b"q", 2)
            assert f.seek(0, 2) == 100
        os.truncate(p, 50); assert os.stat(p).st_size == 50
        os.rename(p, "f/b"); os.replace("f/b", p); os.link(p, "f/l"); os.symlink("a", "f/s")
        assert os.readlink("f/s") == "a"; os.lstat("f/s"); os.chmod(p, 0o600); os.utime(p, (1, 2))
        assert os.access(p, os.R_OK); assert sorted(os.listdir("f")) == ["a", "g", "l", "s"]
        assert len(list(os.scandir("f"))) == 4; assert list(os.walk("f")); os.umask(0o22)
        for name in ("f/l", "f/s"): os.unlink(name)
        os.rmdir("f/g"); assert os.getcwd() == "/tmp"; assert os.path.realpath("f/../f/a") == "/tmp/f/a"
        os.statvfs("/tmp"); import shutil; shutil.disk_usage("/tmp")
    """,
    "descriptors": """
        a = os.open("/tmp/d", os.O_RDWR | os.O_CREAT); b = os.dup(a); os.dup2(a, 40); os.set_inheritable(a, True)
        os.fstat(a); os.fchmod(a, 0o644); os.writev(a, [b"x", b"yz"]); os.lseek(a, 0, 0)
        os.closerange(38, 45); r, w = os.pipe(); os.set_blocking(r, False); os.write(w, b"1"); assert os.read(r, 9) == b"1"
        assert not os.isatty(a); os.get_inheritable(a)
        import fcntl; fcntl.fcntl(a, fcntl.F_GETFL); fcntl.fcntl(a, fcntl.F_DUPFD_CLOEXEC, 50)
        d = os.open("/tmp", os.O_RDONLY); os.listdir(d); os.close(d)
    """,
    "trees": """
        import shutil, tempfile, zipfile, tarfile, pathlib, glob
        with tempfile.TemporaryDirectory() as t:
            p = pathlib.Path(t, "a"); (p / "b" / "c").mkdir(parents=True); (p / "b" / "f").write_text("x" * 100_000)
            (p / "l").symlink_to("b"); shutil.copytree(p, pathlib.Path(t, "copy"), symlinks=True)
            shutil.copytree(p, pathlib.Path(t, "copy2")); shutil.copy2(p / "b" / "f", pathlib.Path(t, "g"))
            shutil.move(pathlib.Path(t, "g"), pathlib.Path(t, "h")); (p / "b" / "f").rename(p / "moved")
            pathlib.Path(t, "h").touch(); pathlib.Path(t, "h").chmod(0o600)
            for kind in ("zip", "gztar"): shutil.unpack_archive(shutil.make_archive(t + "/z", kind, p), t + "/u" + kind)
            assert glob.glob(t + "/**/f", recursive=True); shutil.rmtree(p); assert not p.exists()
        with tempfile.NamedTemporaryFile() as f, tempfile.TemporaryFile() as g, tempfile.SpooledTemporaryFile(9) as h:
            f.write(b"1"); g.write(b"2"); h.write(b"3" * 99)
        fd, name = tempfile.mkstemp(); os.close(fd)
    """,
    "memory": """
        import mmap, array, gc
        m = mmap.mmap(-1, 1 << 20); m[:3] = b"abc"; m.close()
        with open("/tmp/m", "w+b") as f:
            f.truncate(8192); m = mmap.mmap(f.fileno(), 8192); m[0:1] = b"z"; m.flush(); m.resize(16384); m.close()
        big = [bytes(1 << 20) for _ in range(40)]; big += [b"x" * (1 << 24)]; del big; gc.collect()
        a = array.array("d", range(10**6)); a.extend(a); s = "x" * (1 << 25); s += "y"; b = bytearray()
        for _ in range(200): b += b"0" * 100_000
    """,
    "time": """
        import time, datetime, zoneinfo
        time.sleep(0.001); time.clock_getres(time.CLOCK_MONOTONIC); time.process_time(); time.thread_time(); time.time_ns()
        time.monotonic(); time.perf_counter(); datetime.datetime.now(zoneinfo.ZoneInfo("Europe/Paris")); time.localtime()
        for n in ("time", "monotonic", "perf_counter", "process_time", "thread_time"): time.get_clock_info(n)
        os.times()
    """,
    "signals": """
        import signal, time, faulthandler, threading
        hits = []; signal.signal(signal.SIGUSR1, lambda *_: hits.append(1)); os.kill(os.getpid(), signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR1); signal.pthread_kill(threading.get_ident(), signal.SIGUSR1); assert len(hits) == 3
        signal.signal(signal.SIGALRM, lambda *_: hits.append(2)); signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(0.05)
        assert hits[-1] == 2; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); os.kill(os.getpid(), signal.SIGUSR1)
        assert signal.sigtimedwait([signal.SIGUSR1], 1).si_signo == signal.SIGUSR1
        signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause(); faulthandler.enable()
        signal.alarm(0); faulthandler.dump_traceback_later(50); faulthandler.cancel_dump_traceback_later()
    """,
    "children": """
        import signal, sys
        r, w = os.pipe(); pid = os.fork()
        if pid == 0: os.close(r); os.write(w, b"hi"); os._exit(3)
        os.close(w); assert os.read(r, 9) == b"hi"; assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
        pid = os.fork()
        leads = "import os; os._exit(os.getpgid(0) == os.getpid())"
        if pid == 0: os.setsid(); os.execv(sys.executable, [sys.executable, "-S", "-c", leads])
        assert os.waitstatus_to_exitcode(os.wait3(0)[1]) == 1
        pid = os.fork()
        if pid == 0: signal.pause()
        os.kill(pid, 9); assert os.wait4(pid, 0)[1] == 9
        pid = os.fork()
        if pid == 0: os._exit(0)
        os.waitid(os.P_PID, pid, os.WEXITED)
        pid = os.posix_spawn(sys.executable, [sys.executable, "-S", "-c", "0"], os.environ); os.waitpid(pid, 0)
        assert os.getpgid(0) == os.getpgrp() > 0 and os.getppid() > 1 and os.getpid() > 1 and os.times().user >= 0
        assert os.getuid() == os.geteuid() == os.getgid() == os.getegid() > 60_000
    """,
    "subprocess": """
        import subprocess, sys
        run = [sys.executable, "-S", "-c"]
        assert subprocess.run([*run, "print(input())"], input=b"hey", capture_output=True).stdout == b"hey\\n"
        subprocess.run([*run, "0"], cwd="/tmp", env={}, start_new_session=True, check=True)
        subprocess.run([*run, "0"], preexec_fn=lambda: None, check=True, process_group=0)
        try: subprocess.run([*run, "import time; time.sleep(30)"], timeout=0.1); raise SystemExit("no timeout")
        except subprocess.TimeoutExpired: pass
        p = subprocess.Popen([*run, "import sys; sys.stdin.read()"], stdin=-1, stdout=-1, stderr=-1, close_fds=False)
        p.communicate(b"1" * 200_000); p.wait(); p = subprocess.Popen([*run, "input()"], stdin=-1); p.terminate(); p.wait(60)
    """,
    "threads": """
        import threading, queue, concurrent.futures, time
        with concurrent.futures.ThreadPoolExecutor() as pool: assert list(pool.map(str, range(50)))[-1] == "49"
        c = threading.Condition(); e = threading.Event(); assert not e.wait(0.01); q = queue.Queue()
        threading.stack_size(1 << 18); t = threading.Thread(target=lambda: q.put(threading.get_native_id())); t.start(); t.join(60)
        assert q.get(timeout=60); b = threading.Barrier(2); t = threading.Thread(target=b.wait); t.start(); b.wait(60); t.join()
        threading.Timer(0.01, e.set).start(); assert e.wait(60)
        hot = [threading.Thread(target=lambda: sum(range(10**5))) for _ in range(20)]
        [t.start() for t in hot], [t.join() for t in hot]
    """,
    "asyncio": """
        import asyncio, signal, socket, sys
        async def main():
            assert await asyncio.to_thread(lambda: 3) == 3; await asyncio.gather(*(asyncio.sleep(0.001) for _ in range(20)))
            p = await asyncio.create_subprocess_exec(sys.executable, "-S", "-c", "print(input())", stdin=-1, stdout=-1)
            assert (await p.communicate(b"x\\n"))[0] == b"x\\n"
            p = await asyncio.create_subprocess_exec(sys.executable, "-S", "-c", "input()", stdin=-1); p.kill(); await p.wait()
            loop = asyncio.get_running_loop(); hit = asyncio.Event(); loop.add_signal_handler(signal.SIGUSR1, hit.set)
            os.kill(os.getpid(), signal.SIGUSR1); await asyncio.wait_for(hit.wait(), 60)
            left, right = socket.socketpair(); r, w = await asyncio.open_connection(sock=left)
            right.setblocking(False); w.write(b"ping" * 100_000); got = b""
            while len(got) < 400_000: got += await loop.sock_recv(right, 1 << 16)
            await loop.sock_sendall(right, b"pong"); assert await r.readexactly(4) == b"pong"; await w.drain()
            a, b = os.pipe(); reader = asyncio.StreamReader()
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(a, "rb"))
            os.write(b, b"z"); assert await reader.read(1) == b"z"
            try: await asyncio.wait_for(asyncio.sleep(9), 0.01)
            except TimeoutError: pass
        asyncio.run(asyncio.wait_for(main(), 60))
    """,
    "selectors": """
        import selectors, select, socket
        left, right = socket.socketpair(); left.send(b"x" * 10); left.settimeout(0.01)
        for kind in (selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector):
            with kind() as s: s.register(right, selectors.EVENT_READ); assert s.select(1)
        try: left.recv(1); raise SystemExit("nothing there")
        except TimeoutError: pass
        assert right.recv(3) == b"xxx"; left.sendall(b"y" * 1000)
        left.close(); assert right.recv(5000)
    """,
    "multiprocessing": """
        import multiprocessing as m, pathlib, subprocess, sys
        pathlib.Path("/tmp/mp.py").write_text('''
        import multiprocessing as m
        def work(pipe): pipe.send(pipe.recv() * 2)
        if __name__ == "__main__":
            for kind in ("spawn", "fork"):
                context = m.get_context(kind); here, there = context.Pipe(); p = context.Process(target=work, args=(there,))
                p.start(); here.send([1]); assert here.poll(60) and here.recv() == [1, 1]; p.join(60); assert p.exitcode == 0
            p = context.Process(target=work, args=(there,)); p.start(); p.terminate(); p.join(60)
        ''')
        assert subprocess.run([sys.executable, "-B", "/tmp/mp.py"]).returncode == 0
        assert m.cpu_count() and os.sched_getaffinity(0)
    """,
    "sqlite": """
        import sqlite3, threading
        with sqlite3.connect("file:/tmp/db?nolock=1", uri=True, check_same_thread=False) as d:
            d.execute("pragma locking_mode=exclusive"); d.execute("pragma journal_mode=wal"); d.execute("create table t(a)")
            d.executemany("insert into t values (?)", [(n,) for n in range(5000)]); d.commit(); d.execute("delete from t where a > 9")
            d.commit(); d.execute("vacuum"); d.execute("pragma wal_checkpoint(truncate)"); d.execute("pragma mmap_size=1000000")
            assert d.execute("select count(*) from t").fetchone()[0] == 10
            other = sqlite3.connect("file:/tmp/db4?nolock=1", uri=True); other.execute("create table t(a)"); other.close()
        d = sqlite3.connect(":memory:"); d.execute("create table t(a)"); d.backup(sqlite3.connect("file:/tmp/db3?nolock=1", uri=True))
    """,
    "machine": """
        import platform, locale, getpass, resource, random, secrets, uuid, hashlib, ssl, ctypes, tracemalloc, logging, pwd, sysconfig
        platform.platform(); platform.uname(); locale.setlocale(locale.LC_ALL, "C"); os.cpu_count(); os.urandom(9)
        resource.getrusage(resource.RUSAGE_SELF); resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); resource.getrlimit(0)
        secrets.token_hex(); uuid.uuid4(); uuid.uuid1(); random.SystemRandom().random(); hashlib.sha256(); ssl.create_default_context()
        libc = ctypes.CDLL(None); libc.getpid(); tracemalloc.start(); logging.basicConfig(filename="/tmp/log"); logging.error("x")
        back = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: n + 1); assert back(2) == 3; os.get_terminal_size
        import bz2, lzma, zlib, decimal, readline, curses, json, csv, pickle, http.client, urllib.request, email, xml.etree.ElementTree
        assert lzma.decompress(lzma.compress(b"1")) == b"1"; os.sysconf("SC_PAGESIZE"); os.sched_yield()
    """,
    "pytest": """
        import pathlib, subprocess, sys
        pathlib.Path("/tmp/t").mkdir(); pathlib.Path("/tmp/t/test_a.py").write_text('''
        import pytest
        @pytest.fixture
        def made(tmp_path, monkeypatch, capfd):
            monkeypatch.chdir(tmp_path); (tmp_path / "x").write_text("1"); print("noise"); return tmp_path
        def test_a(made): assert (made / "x").read_text() == "1"
        @pytest.mark.parametrize("n", range(5))
        def test_b(n, tmp_path_factory): assert tmp_path_factory.mktemp("z").exists()
        ''')
        done = subprocess.run([sys.executable, "-B", "-m", "pytest", "-q", "/tmp/t"], capture_output=True, text=True)
        assert done.returncode == 0 and "6 passed" in done.stdout, done
    """,
}

_BODY = """
    import subprocess, sys, textwrap, os

    STEPS = {steps!r}

    def sample(task):
        told = {{}}
        os.makedirs("/tmp/output", exist_ok=True)
        for name in task or STEPS:
            source = "import os\\n" + textwrap.dedent(STEPS[name]) + "\\nprint('ok')"
            try:
                done = subprocess.run(
                    [sys.executable, "-B", "-X", "utf8", "-c", source], capture_output=True, text=True, timeout=25
                )
                told[name] = "ok" if done.stdout.endswith("ok\\n") else (done.stderr.strip() or f"exit {{done.returncode}}")[-300:]
            except (subprocess.SubprocessError, OSError) as error:
                told[name] = f"{{type(error).__name__}}: {{error}}"[-300:]
        with open("/tmp/output/told", "w") as file:
            file.write(str(told))
        return told
"""


def package(root: Path) -> Path:
    """A snapshot whose package runs the steps that its task names (None: all) and returns name → `ok` or what went wrong."""
    from tests.helpers.sandbox import snapshot

    return snapshot(root, _BODY.format(steps=STEPS))
