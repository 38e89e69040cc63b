"""Become an unprivileged user, tie one's life to the parent's, and turn into the program given.

Run as a script by `tsqldev.pgserver`: `python -I -S _pglaunch.py PARENT_PID SIGNAL UID GID PROGRAM ARG...`. UID -1
keeps the user. It needs nothing but the standard library, and reads nothing after it has given its rights up.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, death_signal, uid, gid = (int(argument) for argument in sys.argv[1:5])
    program = sys.argv[5:]
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if death_signal and sys.platform == "linux":
        # After setuid: a change of credentials clears the setting.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit(1)  # the parent died before the setting took hold
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.umask(0o077)
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
