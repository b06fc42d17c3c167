"""The roll call before processes start together: which have arrived, and which have not.

jax waits for all processes and, if one never arrives, aborts without saying which. So before jax
starts, process 0 listens at the common address, every other process reports its number there, and
all wait until the last one has reported.
"""

import contextlib
import json
import socket
import time
from collections.abc import Iterator

LONGEST = 256  # bytes of a line
AGAIN = 0.2  # seconds until the next attempt to reach process 0
FIRST_WORDS = "bbalpha"  # so that other programs at the same port are recognized


class Absent(RuntimeError):
    """A process has not arrived, or its numbers contradict those of the others."""


def call_roll(address: str, num_processes: int, process_id: int, timeout: float) -> None:
    """Return as soon as all processes have arrived.

    Raises:
        Absent: If one has not arrived within `timeout` seconds; with its number, if known.
    """
    if num_processes == 1:
        return
    deadline = time.monotonic() + timeout
    if process_id == 0:
        _listen(address, num_processes, deadline, timeout)
    else:
        _report(address, num_processes, process_id, deadline, timeout)


def _listen(address: str, num_processes: int, deadline: float, timeout: float) -> None:
    present: dict[int, socket.socket] = {}
    guests = []
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_server(address))
        problem = None
        while len(present) < num_processes - 1 and problem is None:
            guest = _next_guest(server, deadline)
            if guest is None:
                problem = _missing(
                    set(range(1, num_processes)) - set(present), num_processes, timeout
                )
                break
            stack.enter_context(guest)
            found = _read(guest)
            if found is None:  # not a process of ours
                continue
            guests.append(guest)
            number, count = found
            if count != num_processes:
                problem = (
                    "num_processes must be the same in every process; got "
                    f"num_processes={num_processes} in process 0 and {count} in process {number}."
                )
            elif number in present and not _has_left(present[number]):
                problem = (
                    f"process_id must differ between processes; got process_id={number} twice."
                )
            else:
                present[number] = guest
        for guest in guests:
            with contextlib.suppress(OSError):
                _write(guest, problem or "")
    if problem:
        raise Absent(problem)


def _report(
    address: str, num_processes: int, process_id: int, deadline: float, timeout: float
) -> None:
    host, port = host_and_port(address)
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((host, port), timeout=AGAIN * 5) as connection:
                _write(connection, [process_id, num_processes])
                # A little longer than process 0 waits, so that its answer arrives before.
                connection.settimeout(max(AGAIN, deadline - time.monotonic()) + 1)
                answer = _line(connection)
        except OSError:
            answer = None
        if answer == "":
            return
        if isinstance(answer, str):
            raise Absent(answer)
        time.sleep(AGAIN)
    raise Absent(_missing({0}, num_processes, timeout).rstrip(".") + f" at {address}.")


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of an address such as "10.0.0.1:1234" or "[::1]:1234".

    Raises:
        ValueError: If it is not such an address.

    >>> from bbalpha.runtime.roll_call import host_and_port
    >>> host_and_port("10.0.0.1:1234")
    ('10.0.0.1', 1234)
    """
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdigit() and 0 < int(port) < 2**16):
        raise ValueError(
            f"address must be a host and a port, as host:1234; got address={address!r}."
        )
    return host.strip("[]"), int(port)


def is_loopback(address: str) -> bool:
    """Whether only processes of the same machine can reach the address."""
    host, _ = host_and_port(address)
    return host in ("localhost", "::1") or host.startswith("127.")


def _server(address: str) -> socket.socket:
    """A socket that listens at the port; only locally if the address is a loopback address."""
    host, port = host_and_port(address)
    try:
        if is_loopback(address):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return socket.create_server((host, port), family=family)
        if socket.has_dualstack_ipv6():
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except OSError as error:
        raise Absent(f"process 0 cannot listen at {address}: {error.strerror}.") from None


def _next_guest(server: socket.socket, deadline: float) -> socket.socket | None:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        return None
    server.settimeout(remaining)
    try:
        guest, _ = server.accept()
    except TimeoutError:
        return None
    guest.settimeout(AGAIN * 5)
    return guest


def _read(guest: socket.socket) -> tuple[int, int] | None:
    """The number of a guest and the number of processes it expects; None if it is not ours."""
    try:
        number, count = list(_line(guest) or ())  # pyright: ignore[reportArgumentType]
    except (OSError, ValueError, TypeError):
        return None
    is_ours = isinstance(number, int) and isinstance(count, int) and number > 0
    return (number, count) if is_ours else None


def _has_left(guest: socket.socket) -> bool:
    """Whether the guest has closed the connection."""
    guest.setblocking(False)
    try:
        return guest.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        guest.settimeout(AGAIN * 5)


def _write(connection: socket.socket, message: object) -> None:
    connection.sendall(json.dumps([FIRST_WORDS, message]).encode() + b"\n")


def _line(connection: socket.socket) -> object:
    """The message that was received, or None."""
    received = b"".join(_bytes_up_to_a_line(connection))
    try:
        words, message = json.loads(received)
    except (ValueError, TypeError):
        return None
    return message if words == FIRST_WORDS else None


def _bytes_up_to_a_line(connection: socket.socket) -> Iterator[bytes]:
    for _ in range(LONGEST):
        byte = connection.recv(1)
        if byte in (b"", b"\n"):
            return
        yield byte


def _missing(numbers: set[int], num_processes: int, timeout: float) -> str:
    return f"{in_words(numbers, num_processes)} did not arrive within {timeout:g} seconds."


def in_words(numbers: set[int], num_processes: int) -> str:
    """The processes with these numbers, in words.

    >>> from bbalpha.runtime.roll_call import in_words
    >>> in_words({2}, 4), in_words({1, 3}, 4)
    ('Process 2 of 4', 'Processes 1 and 3 of 4')
    """
    shown = [str(number) for number in sorted(numbers)]
    if len(shown) > 10:
        shown = [*shown[:9], f"{len(shown) - 9} more"]
    names = " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)
    return f"Process{'es' if shown[1:] else ''} {names} of {num_processes}"
