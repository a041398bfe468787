"""Claim: a message is built once and read by slicing, well below a microsecond each."""

from fedq.core import message
from loadtests.micro.timing import Case

ROUTE = message.make_route("amq.topic", "stock.nyse.ibm")
PROPERTIES = b"\x10\x00\x02"
ENCODED = message.encode(message.FLAG_PERSISTENT, ROUTE, PROPERTIES, b"x" * 100)

CASES = [
    Case("message encode", 1, lambda: message.encode(1, ROUTE, PROPERTIES, b"x" * 100)),
    Case("message split", 1, lambda: message.split(ENCODED)),
    Case("message route_of", 1, lambda: message.route_of(ENCODED)),
]
