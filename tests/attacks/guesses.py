"""Who guesses passwords from many addresses, and signals that come meanwhile (findings L7, D3)."""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from fedq.amqp import method_types as m
from fedq.amqp.methods import encode_method
from fedq.core.limits import LOGINS_VERIFIED_S
from tests.attacks.attacker import PATIENCE_S
from tests.attacks.crowds import crowd, hang_up, login
from tests.attacks.stage import AMPLE, AMPLE_GROWTH, Stage, attack
from tests.integration.stock import Address
from tests.integration.waiting import until

ADDRESSES: Final = 200
#: Of each address so many passwords wait.
GUESSES: Final = 3
#: Users who log in for the first time since the node's start, one after the other.
USERS: Final = 10
#: How long one of them may wait; who has not logged in after ten seconds is cut off.
LOGIN_S: Final = 5.0
MORE: dict[str, Any] = {
    **AMPLE,
    "users": {"guest": "guest", **{f"user{number}": f"right {number}" for number in range(USERS)}},
}


def _guess(address: Address, number: int) -> socket.socket:
    """A wrong password of a user that there is, never the same."""
    guesser = socket.socket()
    guesser.settimeout(PATIENCE_S)
    guesser.bind((f"127.0.1.{1 + number % ADDRESSES}", 0))
    guesser.connect((address.host, address.port))
    guesser.sendall(login(f"user{number % USERS}", f"wrong {number}"))
    return guesser


@contextlib.contextmanager
def _guessing(stage: Stage) -> Iterator[None]:
    """From 200 addresses somebody guesses, several at once, again and again."""
    ends = threading.Event()

    def guess() -> None:
        held: list[socket.socket] = []
        number = 0
        while not ends.is_set():
            held.append(_guess(stage.address, number))
            number += 1
            if len(held) > GUESSES * ADDRESSES:
                held.pop(0).close()
                ends.wait(0.002)
        hang_up(held)

    thread = threading.Thread(target=guess, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def _log_in(stage: Stage, number: int) -> float:
    """Seconds until a user is in who has never been seen; and works there."""
    began = time.monotonic()
    words = login(f"user{number}", f"right {number}") + encode_method(1, m.ChannelOpen())
    [neighbour] = crowd(stage.address, [words], m.ChannelOpenOk)
    took = time.monotonic() - began
    neighbour.close()
    return took


def _be_wrong_everywhere(address: Address) -> None:
    """Returns when a password of each address has been looked at, and was wrong."""
    at_once = 2 * LOGINS_VERIFIED_S  # Two seconds, of the ten within which to log in.
    for first in range(0, ADDRESSES, at_once):
        guessers = [_guess(address, first + number) for number in range(at_once)]
        for guesser in guessers:
            # Without the capability to be told why, a client is cut off.
            while guesser.recv(4_096):
                pass
        hang_up(guessers)


@attack("L7", more=MORE, growth_bytes=AMPLE_GROWTH)
def wrong_passwords_from_many_addresses(stage: Stage) -> None:
    """From 200 addresses 600 guesses wait at any time; ten users log in beside them."""
    # For the first guess of an address that was never wrong everybody waits, once.
    _be_wrong_everywhere(stage.address)
    with _guessing(stage):
        waits = [_log_in(stage, number) for number in range(USERS)]
    assert max(waits) < LOGIN_S, f"a user waited {max(waits):.1f} s to be let in"


@attack("D3", more=MORE, growth_bytes=AMPLE_GROWTH)
def signals_to_reload_during_logins(stage: Stage) -> None:
    """Thousands of SIGHUPs a second while clients log in and leave."""
    ends = threading.Event()

    def hang_up_signals() -> None:
        while not ends.is_set():
            os.kill(stage.pid, signal.SIGHUP)
            ends.wait(0.000_1)

    thread = threading.Thread(target=hang_up_signals, daemon=True)
    thread.start()
    try:
        words = login() + encode_method(1, m.ChannelOpen())
        last = time.monotonic() + 5
        while time.monotonic() < last:
            hang_up(crowd(stage.address, [words] * 50, m.ChannelOpenOk))
    finally:
        ends.set()
        thread.join()
    log = stage.cluster.nodes[stage.name].directory / "node.log"
    until("the log stays small", lambda: log.stat().st_size < 1_000_000, 1)
