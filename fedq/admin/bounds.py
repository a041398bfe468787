"""Every bound of the admin service, with its unit last."""

from typing import Final

#: How long another member may take to answer before its figures count as unknown.
member_answer_ms: Final = 1_000
#: How long the cluster may take to make a change that was asked for.
change_ms: Final = 15_000
#: Left of the caller's own deadline to put the answers together and send them.
merge_ms: Final = 100
queues_per_page_default: Final = 100
queues_per_page_max: Final = 500
connections_default: Final = 100
connections_max: Final = 1_000
#: What an operator may have clients hear, beside the reply code's name.
close_reason_bytes_max: Final = 200
name_pattern_characters_max: Final = 255
page_token_characters_max: Final = 2_048
#: Names of silent members, members and the like that one sentence spells out.
names_in_sentence_max: Final = 5
#: What an answer of a whole page may take on the wire.
admin_message_bytes_max: Final = 16 * 1024 * 1024

assert merge_ms < member_answer_ms
assert queues_per_page_default <= queues_per_page_max
assert connections_default <= connections_max
