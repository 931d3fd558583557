"""Manifests: saving what an engine was asked, and making an engine ready for it.

Engine.warm and Engine.save_traffic are what hosts call; here is how.
"""
import ctypes
import json
import math
import os
import stat

from . import _abi, _errors

_MAX_DEADLINE_S = 4000000  # of milliseconds in 32 bits
_MAX_BYTES = 64 << 20  # of a manifest, as the library has it


def save(address, path):
    """Write the manifest of an engine's steps."""
    _abi.call("stg_traffic_save", address, _abi.path(path, "path"))


def warm(address, manifest, deadline, threads, progress):
    """Make what a manifest lists; the report as a dict."""
    name, text = _read(manifest)
    desc = _abi.new(_abi.WarmDesc, deadline_ms=_milliseconds(deadline))
    desc.threads = _abi.uint32(threads, "threads")
    raised = []
    if progress is not None:
        if not callable(progress):
            raise TypeError(f"progress is {progress!r}, neither a function nor None")
        desc.progress = _abi.WARM_FUNCTION(lambda _, at: _tell(progress, at.contents, raised))
    report = _abi.new(_abi.WarmReport)
    size = len(text)
    _abi.call("stg_warm", address, name, text, size, ctypes.byref(desc), ctypes.byref(report))
    if raised:
        raise raised[0]
    return _as_dict(report)


def _tell(progress, at, raised):
    """Call the host's function; what it raises ends the call and is raised when that is over."""
    current = None if at.current is None else at.current.decode(errors="replace")
    try:
        answer = progress(at.done, at.total, current, at.eta_s if at.eta_s >= 0 else None)
    except BaseException as error:  # also Ctrl-C
        raised.append(error)
        return False
    return answer is not False


def _read(manifest):
    """(name for messages, text) of a path, or of text, which begins with a brace."""
    if isinstance(manifest, dict):
        return b"<manifest>", json.dumps(manifest).encode()
    if isinstance(manifest, str) and manifest.lstrip()[:1] == "{":
        return b"<manifest>", manifest.encode()
    if not isinstance(manifest, (str, os.PathLike)):
        kind = type(manifest).__name__  # what it holds may be long
        raise TypeError(f"manifest is {kind}, neither a path nor the text or dict of a manifest")
    name = _abi.path(manifest, "manifest")
    return name, _bytes_of(name)


def _bytes_of(path):
    """What a file holds, up to what the library refuses. Opening a FIFO would wait for a writer."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _errors.IoError(f"cannot read '{os.fsdecode(path)}': it is not a file")
        with open(fd, "rb", closefd=False) as file:
            return file.read(_MAX_BYTES + 1)
    finally:
        os.close(fd)


def _milliseconds(deadline):
    if deadline is None:
        return 0
    seconds = float(deadline)
    if not 0 < seconds <= _MAX_DEADLINE_S:
        raise _errors.InvalidError(
            f"deadline is {deadline!r}, not seconds above 0 and up to {_MAX_DEADLINE_S}"
        )
    return math.ceil(seconds * 1000)


def _as_dict(report):
    ask = _abi.library().stg_warm_report_json
    room = ctypes.create_string_buffer(ask(ctypes.byref(report), None, 0))
    ask(ctypes.byref(report), room, len(room))
    return json.loads(room.value)
