"""The numbers of `spec.py` that compiled code reads, under the same names and as constants of C.

`tests/twins/test_interface.py` holds each to the one in Python; `MESSAGE_HEAD` is `HEAD_SIZE` of
`fedq.core.message`.
"""

cdef enum:
    FRAME_METHOD = 1
    FRAME_HEADER = 2
    FRAME_BODY = 3
    FRAME_HEARTBEAT = 8
    FRAME_END = 0xCE
    FRAME_HEAD = 7
    FRAME_OVERHEAD = FRAME_HEAD + 1

    BASIC = 60
    BASIC_PUBLISH = 40
    BASIC_DELIVER = 60
    BASIC_ACK = 80
    BASIC_REJECT = 90
    BASIC_NACK = 120

    PUBLISH_IDS = BASIC << 16 | BASIC_PUBLISH
    DELIVER_IDS = BASIC << 16 | BASIC_DELIVER
    ACK_IDS = BASIC << 16 | BASIC_ACK
    REJECT_IDS = BASIC << 16 | BASIC_REJECT
    NACK_IDS = BASIC << 16 | BASIC_NACK
    HEADER_IDS = BASIC << 16

    SETTLING_PAYLOAD = 13
    SETTLING_FRAME = FRAME_OVERHEAD + SETTLING_PAYLOAD
    HEADER_PAYLOAD = 12

    MESSAGE_HEAD = 7
