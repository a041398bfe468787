"""Methods to bytes and back: the types of `fedq.amqp.method_types` and their coding, in one place.

The few methods that travel once for each message have faster ways in `fedq.amqp.frames` and
`fedq.amqp.deliveries`, which tests compare with these.
"""

from fedq.amqp.method_coding import decode_method as decode_method
from fedq.amqp.method_coding import encode_method as encode_method
from fedq.amqp.method_coding import frame_ids as frame_ids
from fedq.amqp.method_coding import ids_of as ids_of
from fedq.amqp.method_coding import name_of as name_of
from fedq.amqp.method_types import *  # noqa: F403
