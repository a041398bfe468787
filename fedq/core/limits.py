"""Every bound of a node, with its unit last. Reaching one is back-pressure or a refusal."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * 1024

# --- AMQP connections ------------------------------------------------------------------------
#: Offered to clients in connection.tune.
frame_bytes_max: Final = 131_072
channels_max: Final = 2_047
heartbeat_s: Final = 60
#: A connection on which nothing has come for so long is asked by the system whether it is still
#: there, so often, this far apart.
keepalive_idle_s: Final = 60
keepalive_interval_s: Final = 15
keepalive_probes: Final = 4
#: For how long a client that is not read (it is blocked) may be silent, if it agreed to heartbeats.
unheard_ms_max: Final = 3_600_000
#: A connection that has not opened a virtual host by then is closed.
handshake_ms: Final = 10_000
#: Connections of one address that have not opened a virtual host, unless set otherwise.
logins_per_address_max: Final = 1_000
#: Before authentication no frame larger than this is read.
handshake_frame_bytes_max: Final = 16 * KIB
#: How many different tables of client properties are shared by the connections that sent them.
client_properties_known_max: Final = 256
client_properties_known_bytes_max: Final = 2 * KIB
body_bytes_max: Final = 128 * MIB
#: A content header around its property list: frame head and end, class, weight and body size.
header_overhead_bytes: Final = 20
#: What a broker may add to a property list: deaths, counts, delays.
properties_reserve_bytes: Final = 4 * KIB
#: The property list of a publish. So whatever is added, its header fits into the frames offered.
properties_bytes_max: Final = frame_bytes_max - header_overhead_bytes - properties_reserve_bytes
#: Entries of `x-death` that are kept, newest first.
deaths_max: Final = 256
consumers_per_channel_max: Final = 10_000
consumers_per_connection_max: Final = 20_000
name_bytes_max: Final = 255
table_depth_max: Final = 32
#: After so many bytes of one connection in one turn, it is read again only after that turn. What
#: one read brings (with uvloop up to 250 KiB) may come on top.
read_bytes_per_turn_max: Final = 256 * KIB
#: Reads of so much are heard at once, and others only while a pass of the event loop has room.
short_read_bytes_max: Final = 2 * KIB
#: How long one pass hears long reads, beside `turn_bytes_max`, before it puts off what else comes.
heard_pass_ms: Final = 20
#: What may be put off of all connections.
put_off_bytes_max: Final = 64 * MIB
#: So much of what was put off is heard at once: between two pieces it is looked at the clock.
put_off_piece_bytes_max: Final = 32 * KIB
#: After so many bytes of all connections together, a turn ends at once. One read on top, too.
turn_bytes_max: Final = MIB

# --- descriptors -----------------------------------------------------------------------------
#: Kept back for files that have to be opened when clients and strangers hold all others.
spare_descriptors: Final = 8
#: Connections at a time on the peers' port and on the admin port, whoever makes them, and how long
#: one may take to prove who it is.
peer_connections_max: Final = 128
admin_connections_max: Final = 64
rpc_handshake_ms: Final = 3_000
#: What is not for clients: those connections, this node's own to its peers, files.
reserved_descriptors: Final = 256
#: Calls of people and tools are small; peers' frames are not.
admin_request_bytes_max: Final = MIB

# --- the journal -----------------------------------------------------------------------------
segment_bytes_max: Final = 64 * MIB
record_bytes_max: Final = 256 * MIB
#: A record that is so long is written as it is, not copied to what is written with it.
long_record_bytes_min: Final = 256 * KIB
#: Ranges in the record of what was seen of a fragment; of more, the lowest ones become one.
seen_ranges_max: Final = 4_096
#: Messages kept singly that are looked at for it, one by one.
seen_looked_at_max: Final = 100_000

# --- the cluster map -------------------------------------------------------------------------
command_bytes_max: Final = 48 * KIB
operations_per_command_max: Final = 200
commands_in_flight_max: Final = 1_024
#: Commands in which a leader proposes what it has decided, at once; the rest with its next tick.
decisions_per_tick_max: Final = 32
requests_remembered_max: Final = 4_096
requests_remembered_bytes_max: Final = 16 * MIB
map_objects_max: Final = 50_000
#: So many of them are for operators and members: a map that clients have filled can be managed.
map_reserve_percent: Final = 2
#: What all objects may take of a snapshot, as JSON, and how far operators and members may go
#: beyond it. With the requests that are remembered it stays far below `snapshot_bytes_max`.
map_bytes_max: Final = 64 * MIB
map_reserve_bytes: Final = 8 * MIB
snapshot_bytes_max: Final = 256 * MIB
#: The arguments of one exchange, queue or binding, as JSON.
arguments_bytes_max: Final = 4 * KIB

# --- access: virtual hosts, users, permissions -----------------------------------------------
vhosts_max: Final = 1_000
users_max: Final = 10_000
#: Pairs of user and virtual host.
permissions_max: Final = 20_000
tags_per_user_max: Final = 16
password_bytes_max: Final = 1_024
#: A stored password: scheme, cost, salt and key as text.
password_record_bytes_max: Final = 255
#: A regular expression of a permission, and the steps of the program it becomes.
pattern_bytes_max: Final = 1_024
pattern_steps_max: Final = 1_000
#: Users of the configuration with which a cluster begins.
first_users_max: Final = 64
#: Logins that a node remembers, so that the next one with the same password costs next to nothing.
logins_remembered_max: Final = 4_096
failed_logins_remembered_max: Final = 512
#: Passwords that a node verifies at a cost, beside its turns; other logins wait meanwhile.
logins_verified_s: Final = 20
logins_verified_burst: Final = 20
#: So many are handed over at a time: one is verified, and the next is there when it is.
logins_running_max: Final = 2
#: Passwords that turn out wrong, at a cost: of one user from one place.
failed_logins_per_user_s: Final = 1
failed_logins_per_user_burst: Final = 5
#: So many failed logins, and TLS handshakes, are told one by one in ten seconds.
failed_logins_told: Final = 5
#: Wrong passwords of users that the admin port verifies.
admin_failed_logins_s: Final = 10
admin_failed_logins_burst: Final = 20

# --- peers -----------------------------------------------------------------------------------
peer_frame_bytes_max: Final = 4 * MIB
#: A message, or a record, that is so long follows its frame, in pieces of so many bytes.
peer_long_bytes_min: Final = MIB
peer_piece_bytes_max: Final = 512 * KIB
#: What one link may hold unacknowledged before its senders are held back.
peer_window_bytes_max: Final = 32 * MIB
#: A peer for which so much waits, in messages or bytes, must acknowledge what it was told within
#: this time; what it says meanwhile is not heard.
unacked_messages_max: Final = 10_000
unacked_bytes_max: Final = 64 * MIB
unacked_stall_ms: Final = 5_000
interest_keys_per_exchange_max: Final = 1_000
#: What a node says at once of what its private queues want.
interest_piece_bytes_max: Final = 256 * KIB

#: Starts of its node that a data directory remembers.
starts_remembered_max: Final = 256

# --- queues and windows ----------------------------------------------------------------------
#: Dead letters of one fragment that are on their way at once, and those that a node sends in a
#: turn: a turn must not take longer than a lease, whatever falls due in it.
dead_letters_max: Final = 1_000
#: Connections, channels and consumers that one page of a list looks at.
listed_per_page_max: Final = 5_000
#: Tickets of one node's consumers that a fragment bears in mind until the node has heard of them.
tickets_given_max: Final = 1_000
#: Messages of one fragment that expire, or become due, in one look at it.
due_per_look_max: Final = 5_000
#: What one transaction may publish, in bytes of messages and in messages with settlements.
transaction_bytes_max: Final = 64 * MIB
transaction_steps_max: Final = 50_000
replicas_default: Final = 2
replicas_max: Final = 5
fragments_per_queue_max: Final = 64
#: Unconfirmed publishes of one node to one fragment.
publish_window_bytes_max: Final = 16 * MIB
#: Standing credit of one node with one remote fragment, in messages.
credit_window_max: Final = 1_000
#: Where several nodes have consumers: how much work fast ones may have waiting with them, and how
#: long messages wait for somebody to have room before all are given more. In milliseconds.
keep_up_ms_max: Final = 25
#: What the consumers of a node may be found to keep up with, in messages.
keep_up_window_max: Final = 1_000_000
#: What one turn hands to one consumer without a prefetch limit, in messages.
delivery_batch_max: Final = 500
#: When so much of one client's bytes waits behind its requests, it is not read.
waiting_bytes_max: Final = MIB
#: A client with so much unread in its socket's buffer, or written to it in one turn, has enough:
#: what it asks for next waits.
unread_bytes_max: Final = 256 * KIB
#: Of a client that speaks TLS so much is encrypted at a time, and so much of that waits in its
#: transport before it has enough: with what the transport below holds, `unread_bytes_max` in all.
tls_piece_bytes_max: Final = 64 * KIB
tls_unread_bytes_max: Final = 64 * KIB
#: While what clients do not read takes more than its share of a node's memory, those who have read
#: nothing for so long are cut off.
unread_stall_ms: Final = 5_000
#: What one turn writes to one connection in deliveries; the rest waits for the next turn.
delivery_bytes_per_turn_max: Final = MIB
#: What a node does in one turn, in units of about a microsecond of compiled code (`core.work`); the
#: rest waits for the next turn.
work_per_turn: Final = 20_000
#: A delivery to a private queue is one unit, and one more for so many bytes of its message.
fan_out_bytes_per_delivery: Final = KIB
#: So many bytes that are copied to a client, or taken from a peer, are a unit of work (as a shift).
work_bytes_shift: Final = 11
copy_chunk_bytes_max: Final = 256 * KIB
copy_chunks_in_flight_max: Final = 4
#: Fragments that a node hands over to another one at a time.
hand_overs_in_flight_max: Final = 256
#: A new copy that was seen to be so close behind its primary, in milliseconds, is waited for by
#: commits until it has caught up: confirms of that fragment take so much longer, once.
copy_behind_ms_max: Final = 250
#: What a node may hold in memory where the machine does not say what it has; else so much of that.
node_memory_bytes_max: Final = 4 * 1024 * MIB
memory_share_percent: Final = 40
#: Messages that a node names when it has to stop, what it tries of them to find the one that did
#: it, and what it keeps of them for its operator.
suspects_max: Final = 1_024
suspects_tried_bytes_max: Final = 16 * MIB
suspects_kept_bytes_max: Final = MIB
#: Characters of what a node says of its stop, and of its exception.
stop_words_max: Final = 1_000
#: Messages that a node recognises because it, or another one, failed at them; and for how long
#: those of which that was not found to be so.
suspects_known_max: Final = 4_096
suspects_unproven_ms: Final = 60_000
#: A copy that a node could not keep is begun anew after so long, each time four times as long.
failed_copy_ms_min: Final = 2_000
failed_copy_ms_max: Final = 300_000

#: A step of the cluster map that failed on a node is tried again after so long, in milliseconds,
#: and at last every so often.
failed_step_ms_min: Final = 1_000
failed_step_ms_max: Final = 60_000
#: Messages in quarantine that a node shows, or does something with, at once.
asides_per_answer_max: Final = 1_000
#: Last words of one peer that are heard.
last_words_heard_s: Final = 1
last_words_heard_burst: Final = 10
#: How long a node that has to stop waits for its last words to leave.
last_words_ms: Final = 500
#: With less free on the disk of its data, a node's publishers wait (RabbitMQ's default).
disk_free_bytes_min: Final = 50_000_000

assert handshake_frame_bytes_max <= frame_bytes_max
assert frame_bytes_max < peer_frame_bytes_max
assert read_bytes_per_turn_max <= turn_bytes_max
assert body_bytes_max < record_bytes_max
assert transaction_bytes_max < record_bytes_max // 2
assert 2 * (map_bytes_max + map_reserve_bytes + requests_remembered_bytes_max) < snapshot_bytes_max
assert peer_connections_max + admin_connections_max + spare_descriptors < reserved_descriptors - 48
assert copy_chunk_bytes_max < peer_frame_bytes_max <= peer_window_bytes_max
