"""The command on a terminal: stdout on one of a given width, or stderr."""
import fcntl
import os
import pty
import struct
import subprocess
import termios

from cli import COMMAND


def lines_on_terminal(case, columns, *words, **environment):
    """The lines that a command prints there, and no word on stderr; 0 columns: of no known width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([COMMAND, *words], cwd=case.folder, env={**case.environment, **environment},
                               stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE)  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 65536):
            seen += piece
    except OSError:  # EIO: nobody holds the other end
        pass
    os.close(ours)
    _, err = process.communicate(timeout=60)
    case.assertEqual((process.returncode, err), (0, b""))
    return seen.decode().replace("\r\n", "\n").splitlines()


def said_on_terminal(case, *words, when_it_speaks=lambda: None):
    """(what a terminal that is stderr gets to see, stdout) of a command that succeeds; what is done at the first of it."""
    ours, theirs = pty.openpty()
    process = case.start(*words, stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 65536):
            if seen == b"":
                when_it_speaks()
            seen += piece
    except OSError:  # EIO: nobody holds the other end
        pass
    os.close(ours)
    out = process.communicate(timeout=600)[0].decode()
    case.assertEqual(process.returncode, 0)
    return seen.decode(), out
