"""With shutdown.drain, SIGTERM makes the daemon refuse acquires, and wait while clients release."""

import signal

import pytest
import tap

import http_client
import servers
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")

SHUTTING_DOWN = (0x21, b"Shutting down")


def begin(daemon):
    """Sends SIGTERM and waits until the daemon says that it drains."""
    daemon.is_expected_to_be_gone = True
    daemon.child.send_signal(signal.SIGTERM)
    daemon.wait_log("draining: no new acquires")


def acquire(binary, name):
    """Sends an Acquire. Returns the status and the body of the answer."""
    binary.send(wire.binary_request(wire.ACQUIRE, wire.acquire_body(1, 9, name)))
    reply = binary.reply()
    return reply.status, reply.body


def test_who_holds_may_release_and_nobody_else_acquires(start):
    daemon = start("counter.threads=2", "shutdown.drain=600")
    holder, waiter, binary = daemon.text_client(), daemon.text_client(), daemon.binary_client()
    assert holder.ask("ACQ4ME k 1 9") == "LOCKED"
    waiter.say("ACQ4ME k 1 9 600")
    assert binary.acquire(1, 9, b"n") == wire.OK
    wire.poll(lambda: holder.stat("waiting_workers") == 1, "one waits")
    begin(daemon)
    late = daemon.text_client()
    assert late.ask("ACQ4ME other 1 9") == "ERROR SHUTTING_DOWN"
    assert late.ask("ACQ4ANY other 1 9 5") == "ERROR SHUTTING_DOWN"
    assert late.stat("processing_workers") == 1
    assert acquire(binary, b"n") == SHUTTING_DOWN
    assert acquire(binary, b"m") == SHUTTING_DOWN
    assert binary.get(b"n") == 1
    assert binary.release(1, b"n") == wire.OK
    assert holder.ask("RELEASE k") == "RELEASED"
    assert waiter.line() == "LOCKED", "who waited already is granted"
    assert daemon.is_running(), "it waits for that one, too"
    assert waiter.ask("RELEASE k") == "RELEASED"
    assert daemon.wait() == 0
    assert "draining: over, with 0 units held" in daemon.log
    for client in (holder, waiter, binary, late):
        assert client.wait_closed() == b""
        client.close()


def test_everybody_who_waited_for_the_last_release_is_answered(start):
    waiters, requests = wire.scaled(900, 500), 4000  # fits into one TCP segment
    daemon = start("counter.threads=2", "shutdown.drain=600")
    holder = daemon.text_client()
    assert holder.ask("ACQ4ANY k 1 100000 600") == "LOCKED"
    crowd = [daemon.text_client() for _ in range(waiters)]
    for waiter in crowd:
        waiter.say("ACQ4ANY k 1 100000 600")
    wire.poll(lambda: holder.stat("waiting_workers") == waiters, "all wait")
    idle, half, deaf = daemon.text_client(), daemon.text_client(), daemon.text_client()
    half.say("RELEASE k\nRELEA")
    deaf.send(b"STATS FULL\n" * 20000)
    begin(daemon)
    holder.send(b"RELEASE k\n" * (1 + requests))
    assert daemon.wait() == 0, "idle clients and clients that do not read do not delay the end"
    assert "draining: over, with 0 units held\n" in daemon.log
    for waiter in crowd:
        assert waiter.line() == "DONE"
        assert waiter.wait_closed() == b""
        waiter.close()
    assert holder.line() == "RELEASED"
    assert [holder.line() for _ in range(requests)] == ["NOT_LOCKED"] * requests
    for client in (holder, idle, half, deaf):
        client.close()


def test_when_the_time_is_up_it_ends_with_0_whoever_holds(start):
    daemon = start("shutdown.drain=1")
    holder = daemon.text_client()
    assert holder.ask("ACQ4ME k 1 9") == "LOCKED"
    begin(daemon)
    assert daemon.wait() == 0
    assert "draining: over, with 1 units held" in daemon.log
    holder.wait_closed()
    holder.close()


def test_who_asks_for_a_reload_or_an_upgrade_is_told_that_it_ends(start):
    daemon = start("shutdown.drain=600", "admin.token=hush", admin=True)
    holder = daemon.text_client()
    assert holder.ask("ACQ4ME k 1 9") == "LOCKED"
    begin(daemon)
    for what in ("reload", "upgrade"):
        status, body = http_client.ask(daemon.admin, "POST", "/api/v1/" + what, "hush")
        assert status == 503 and "counterd is ending" in body, what
    assert holder.ask("RELEASE k") == "RELEASED"
    assert daemon.wait() == 0
    holder.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_second_signal_ends_the_wait(start, number):
    daemon = start("shutdown.drain=600")
    holder = daemon.text_client()
    assert holder.ask("ACQ4ME k 1 9") == "LOCKED"
    begin(daemon)
    daemon.child.send_signal(signal.SIGHUP)
    daemon.wait_log("draining: SIGHUP is ignored")
    daemon.child.send_signal(signal.SIGUSR2)
    daemon.wait_log("stats: .* 1 units")
    daemon.child.send_signal(number)
    assert daemon.wait() == 0
    holder.close()


def test_an_interrupt_does_not_wait(start):
    daemon = start("shutdown.drain=600")
    holder = daemon.text_client()
    assert holder.ask("ACQ4ME k 1 9") == "LOCKED"
    assert daemon.end_with(signal.SIGINT) == 0
    assert "draining" not in daemon.log
    holder.close()


def test_with_nothing_held_it_ends_at_once_and_a_holder_who_dies_has_released(start):
    daemon = start("shutdown.drain=600")
    idle = daemon.text_client()
    assert daemon.end_with(signal.SIGTERM) == 0
    idle.close()
    daemon = start("shutdown.drain=600")
    holder = daemon.binary_client()
    assert holder.acquire(5, 9, b"n") == wire.OK
    begin(daemon)
    holder.reset()
    assert daemon.wait() == 0


def test_readiness_is_over_while_it_drains(start):
    daemon = start("shutdown.drain=600", admin=True)
    holder = daemon.text_client()
    assert holder.ask("ACQ4ME k 1 9") == "LOCKED"
    assert http_client.ask(daemon.admin, "GET", "/readyz")[0] == 200
    begin(daemon)
    assert http_client.ask(daemon.admin, "GET", "/readyz")[0] == 503
    assert http_client.ask(daemon.admin, "GET", "/healthz")[0] == 200
    holder.close()
    assert daemon.wait() == 0


if __name__ == "__main__":
    tap.main(__file__)
