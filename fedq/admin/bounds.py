"""Every bound of the admin service, with its unit last."""

from typing import Final

#: How long another member may take to answer before its figures count as unknown.
MEMBER_ANSWER_MS: Final = 1_000
#: How long the cluster may take to make a change that was asked for.
CHANGE_MS: Final = 15_000
#: Left of the caller's own deadline to put the answers together and send them.
MERGE_MS: Final = 100
QUEUES_PER_PAGE_DEFAULT: Final = 100
QUEUES_PER_PAGE_MAX: Final = 500
#: Fragments that a status looks at between two turns of the node: some 3 us each.
FRAGMENTS_PER_TURN: Final = 1_000
CONNECTIONS_DEFAULT: Final = 100
CONNECTIONS_MAX: Final = 1_000
#: What an operator may have clients hear, beside the reply code's name.
CLOSE_REASON_BYTES_MAX: Final = 200
NAME_PATTERN_CHARACTERS_MAX: Final = 255
PAGE_TOKEN_CHARACTERS_MAX: Final = 2_048
#: Names of silent members, members and the like that one sentence spells out.
NAMES_IN_SENTENCE_MAX: Final = 5
#: Reads of streams that gather a chunk, or hand one over, at a time; others wait. And of one user.
STREAM_READS_MAX: Final = 16
STREAM_READS_PER_USER_MAX: Final = 8
#: What a chunk is to have: by default, at least and at most; and the pieces that it travels in.
CHUNK_BYTES_DEFAULT: Final = 1024 * 1024
CHUNK_BYTES_MIN: Final = 64 * 1024
CHUNK_BYTES_MAX: Final = 2 * 1024 * 1024
CHUNK_PIECE_BYTES_MAX: Final = 256 * 1024
#: How long a read waits for what it asked for; and for its caller to take a piece.
CHUNK_WAIT_MS: Final = 10_000
CHUNK_STALL_MS: Final = 30_000
#: Times that one question about a stream may name.
STREAM_TIMES_MAX: Final = 16
#: The highest offset, or time, that one may ask for.
STREAM_NUMBER_MAX: Final = 1 << 62
#: How long the name of a process is that reads a queue.
READER_INSTANCE_BYTES_MAX: Final = 64
#: What an answer of a whole page may take on the wire.
ADMIN_MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024

assert MERGE_MS < MEMBER_ANSWER_MS
assert STREAM_READS_PER_USER_MAX < STREAM_READS_MAX
assert CHUNK_BYTES_MIN <= CHUNK_BYTES_DEFAULT <= CHUNK_BYTES_MAX
assert QUEUES_PER_PAGE_DEFAULT <= QUEUES_PER_PAGE_MAX
assert CONNECTIONS_DEFAULT <= CONNECTIONS_MAX
