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
CONNECTIONS_DEFAULT: Final = 100
CONNECTIONS_MAX: Final = 1_000
#: What an operator may have clients hear, beside the reply code's name.
CLOSE_REASON_BYTES_MAX: Final = 200
NAME_PATTERN_CHARACTERS_MAX: Final = 255
PAGE_TOKEN_CHARACTERS_MAX: Final = 2_048
#: Names of silent members, members and the like that one sentence spells out.
NAMES_IN_SENTENCE_MAX: Final = 5
#: What an answer of a whole page may take on the wire.
ADMIN_MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024

assert MERGE_MS < MEMBER_ANSWER_MS
assert QUEUES_PER_PAGE_DEFAULT <= QUEUES_PER_PAGE_MAX
assert CONNECTIONS_DEFAULT <= CONNECTIONS_MAX
