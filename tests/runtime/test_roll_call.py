"""The roll call: all arrive, or a sentence says who did not."""

import socket
import threading

import pytest

from bbalpha.runtime.roll_call import Absent, call_roll, host_and_port, in_words, is_loopback


def free_address():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def outcomes(numbers, counts, timeout=1.0, guest=None):
    """What the call of each process came to: its message, or None."""
    address, found = free_address(), {}

    def arrive(place, number, count):
        try:
            found[place] = call_roll(address, count, number, timeout)
        except Absent as error:
            found[place] = str(error)

    threads = [
        threading.Thread(target=arrive, args=(place, number, count))
        for place, (number, count) in enumerate(zip(numbers, counts, strict=True))
    ]
    for thread in threads:
        thread.start()
    if guest:
        guest(address)
    for thread in threads:
        thread.join()
    return [found[place] for place in range(len(numbers))]


def test_all_processes_that_arrive_go_on():
    assert outcomes([2, 0, 1], [3, 3, 3], timeout=30.0) == [None] * 3


def test_the_processes_that_do_not_arrive_are_named_to_all():
    sentence = "Processes 1 and 3 of 4 did not arrive within 1 seconds."
    assert outcomes([0, 2], [4, 4]) == [sentence, sentence]


def test_a_process_that_finds_no_process_0_says_where_it_looked():
    (found,) = outcomes([1], [2])
    assert found.startswith("Process 0 of 2 did not arrive within 1 seconds at 127.0.0.1:")


def test_processes_must_agree_on_how_many_they_are():
    sentence = (
        "num_processes must be the same in every process; got num_processes=2 in process 0 and 3 "
        "in process 1."
    )
    assert outcomes([0, 1], [2, 3], timeout=10.0) == [sentence, sentence]


def test_two_processes_of_one_number_are_refused():
    sentence = "process_id must differ between processes; got process_id=1 twice."
    assert outcomes([0, 1, 1], [3, 3, 3], timeout=10.0) == [sentence] * 3


def test_strangers_at_the_port_do_not_count():
    def stranger(address):
        for _ in range(100):
            try:
                with socket.create_connection(host_and_port(address), timeout=1) as connection:
                    connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    return
            except OSError:
                threading.Event().wait(0.01)

    found = outcomes([0], [2], guest=stranger)
    assert found == ["Process 1 of 2 did not arrive within 1 seconds."]


def test_a_port_in_use_is_a_sentence():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(Absent, match=r"^process 0 cannot listen at 127\.0\.0\.1:\d+: Address"):
            call_roll(address, 2, 0, 1.0)


@pytest.mark.parametrize("address", ["here", "host:", ":80", "host:port", "host:0", "host:65536"])
def test_an_address_is_a_host_and_a_port(address):
    with pytest.raises(ValueError, match=r"^address must be a host and a port, as host:1234; got "):
        host_and_port(address)


def test_only_this_machine_reaches_a_loopback_address():
    assert [is_loopback(f"{host}:1") for host in ("127.0.0.1", "[::1]", "localhost")] == [True] * 3
    assert not is_loopback("10.0.0.1:1")


def test_many_processes_are_counted():
    assert in_words(set(range(1, 20)), 20).endswith("7, 8, 9 and 10 more of 20")
