"""A system that fails at one call, or from one call on, as it seems to a process that is killed."""

import contextlib
import errno
import io
import os

import pytest
import safetensors
import safetensors.numpy

CALLS = ("open", "chmod", "fsync", "replace", "unlink", "rmdir", "mkdir", "scandir")  # of `os`


class Killed(BaseException):
    """The process has ended; nothing that it would have done later happens."""


FAULTS = {
    "a full disk": lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    "a broken disk": lambda: OSError(errno.EIO, os.strerror(errno.EIO)),
    "no memory": MemoryError,
    "Ctrl-C": KeyboardInterrupt,
    "a kill": Killed,
}


class System:
    """Counts the calls of the system, and lets one of them fail."""

    def __init__(self, number, fault):
        self.number, self.fault, self.calls = number, fault, []

    @property
    def has_failed(self):
        return len(self.calls) >= self.number

    def fails(self, name):
        """Note a call, and tell whether it fails."""
        was_killed = self.has_failed and self.fault is Killed
        self.calls.append(name)
        return was_killed or len(self.calls) == self.number

    def patched(self, name, function):
        def call(*args, **settings):
            if self.fails(name):
                raise self.fault()
            return function(*args, **settings)

        return call

    def save_file(self, arrays, path, metadata, save_file=safetensors.numpy.save_file):
        """Half of a file is written before the fault."""
        if not self.fails("write"):
            save_file(arrays, path, metadata)
            return
        if not (self.fault is Killed and len(self.calls) > self.number):
            save_file(arrays, path, metadata)
            os.truncate(path, path.stat().st_size // 2)
        error = self.fault()
        if isinstance(error, OSError):
            raise safetensors.SafetensorError(f"I/O error: {error.strerror}")
        raise error

    def opened(self, path, mode="r", *args, open=io.open, **settings):
        if self.fails("open"):
            raise self.fault()
        file = open(path, mode, *args, **settings)
        return Written(file, self) if "+" in mode or "w" in mode else file


class Written:
    """A file of which half is written before the fault."""

    def __init__(self, file, system):
        self.file, self.system = file, system

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def seek(self, place):
        self.file.seek(place)

    def write(self, data):
        if self.system.fails("write"):
            self.file.write(data[: len(data) // 2])
            raise self.system.fault()
        self.file.write(data)


@contextlib.contextmanager
def failing(number, fault):
    """A system whose call of that number fails with the fault; the first call is number 1."""
    system = System(number, fault)
    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, system.patched(name, getattr(os, name)))
        patch.setattr(io, "open", system.opened)
        patch.setattr(safetensors.numpy, "save_file", system.save_file)
        yield system


def every_fault(fault, prepare, act):
    """Let `act` fail at its first call of the system, at its second, and so on, until it does not.

    Args:
        fault: What is raised.
        prepare: Called before each time.
        act: What is to fail.

    Yields:
        What was raised, or None if nothing was; and the calls of the system.
    """
    number, has_failed = 0, True
    while has_failed:
        number += 1
        prepare()
        raised = None
        with failing(number, fault) as system:
            try:
                act()
            except (Exception, KeyboardInterrupt, Killed) as error:
                raised = error
        has_failed = system.has_failed
        yield raised, system.calls
