"""Every bound of a node, with its unit last. Reaching one is back-pressure or a refusal."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * 1024

# --- AMQP connections ------------------------------------------------------------------------
#: Offered to clients in connection.tune.
FRAME_BYTES_MAX: Final = 131_072
CHANNELS_MAX: Final = 2_047
HEARTBEAT_S: Final = 60
#: A connection on which nothing has come for so long is asked by the system whether it is still
#: there, so often, this far apart.
KEEPALIVE_IDLE_S: Final = 60
KEEPALIVE_INTERVAL_S: Final = 15
KEEPALIVE_PROBES: Final = 4
#: For how long a client that is not read (it is blocked) may be silent, if it agreed to heartbeats.
UNHEARD_MS_MAX: Final = 3_600_000
#: A connection that has not opened a virtual host by then is closed.
HANDSHAKE_MS: Final = 10_000
#: Connections of one address that have not opened a virtual host, unless set otherwise.
LOGINS_PER_ADDRESS_MAX: Final = 1_000
#: Before authentication no frame larger than this is read.
HANDSHAKE_FRAME_BYTES_MAX: Final = 16 * KIB
#: How many different tables of client properties are shared by the connections that sent them.
CLIENT_PROPERTIES_KNOWN_MAX: Final = 256
CLIENT_PROPERTIES_KNOWN_BYTES_MAX: Final = 2 * KIB
BODY_BYTES_MAX: Final = 128 * MIB
#: A content header around its property list: frame head and end, class, weight and body size.
HEADER_OVERHEAD_BYTES: Final = 20
#: What a broker may add to a property list: deaths, counts, delays.
PROPERTIES_RESERVE_BYTES: Final = 4 * KIB
#: The property list of a publish. So whatever is added, its header fits into the frames offered.
PROPERTIES_BYTES_MAX: Final = FRAME_BYTES_MAX - HEADER_OVERHEAD_BYTES - PROPERTIES_RESERVE_BYTES
#: Entries of `x-death` that are kept, newest first.
DEATHS_MAX: Final = 256
CONSUMERS_PER_CHANNEL_MAX: Final = 10_000
CONSUMERS_PER_CONNECTION_MAX: Final = 20_000
#: Messages that may wait in an exclusive queue, whatever its client asked for.
EXCLUSIVE_QUEUE_MESSAGES_MAX: Final = 1_000_000
#: And in all of a node together.
EXCLUSIVE_TOTAL_MESSAGES_MAX: Final = 4_000_000
NAME_BYTES_MAX: Final = 255
TABLE_DEPTH_MAX: Final = 32
#: After so many bytes of one connection in one turn, it is read again only after that turn. What
#: one read brings (with uvloop up to 250 KiB) may come on top.
READ_BYTES_PER_TURN_MAX: Final = 256 * KIB
#: Reads of so much are heard at once, and others only while a pass of the event loop has room.
SHORT_READ_BYTES_MAX: Final = 2 * KIB
#: How long one pass hears long reads, beside `TURN_BYTES_MAX`, before it puts off what else comes.
HEARD_PASS_MS: Final = 20
#: What may be put off of all connections.
PUT_OFF_BYTES_MAX: Final = 64 * MIB
#: So much of what was put off is heard at once: between two pieces it is looked at the clock.
PUT_OFF_PIECE_BYTES_MAX: Final = 32 * KIB
#: After so many bytes of all connections together, a turn ends at once. One read on top, too.
TURN_BYTES_MAX: Final = MIB

# --- descriptors -----------------------------------------------------------------------------
#: Kept back for files that have to be opened when clients and strangers hold all others.
SPARE_DESCRIPTORS: Final = 8
#: Connections at a time on the peers' port and on the admin port, whoever makes them, and how long
#: one may take to prove who it is.
PEER_CONNECTIONS_MAX: Final = 128
ADMIN_CONNECTIONS_MAX: Final = 64
RPC_HANDSHAKE_MS: Final = 3_000
#: Connections at a time to the ports of HTTP, and those that they make as AMQP clients.
HTTP_CONNECTIONS_MAX: Final = 64
HTTP_CLIENTS_MAX: Final = 8
#: Clients at a time beyond those that there may be: they hear that, and where to go instead.
SURPLUS_CLIENTS_MAX: Final = 16
#: What is not for clients: those connections, this node's own to its peers, files.
RESERVED_DESCRIPTORS: Final = 352
#: Calls of people and tools are small; peers' frames are not.
ADMIN_REQUEST_BYTES_MAX: Final = MIB

# --- the journal -----------------------------------------------------------------------------
SEGMENT_BYTES_MAX: Final = 64 * MIB
RECORD_BYTES_MAX: Final = 256 * MIB
#: How fast what was written long ago is read again, and how often all of it: once a day.
SCRUB_BYTES_PER_SECOND: Final = 4 * MIB
SCRUB_EVERY_MS: Final = 86_400_000
#: What cannot be read of a file is told apart from what can to so many bytes: a sector of the disk,
#: or a page of the host's memory, is not read in part.
SECTOR_BYTES: Final = 4_096
#: A record that is so long is written as it is, not copied to what is written with it.
LONG_RECORD_BYTES_MIN: Final = 256 * KIB
#: Ranges in the record of what was seen of a fragment; of more, the lowest ones become one.
SEEN_RANGES_MAX: Final = 4_096
#: Messages that one record of a checkpoint may call alive.
LIVE_RECORD_MESSAGES_MAX: Final = 1 << 20
#: Messages kept singly that are looked at for what was seen, one by one.
SEEN_LOOKED_AT_MAX: Final = 100_000

# --- the cluster map -------------------------------------------------------------------------
#: More do not make the map safer, only slower; further nodes observe.
VOTERS_MAX: Final = 5
#: Nodes of a cluster, observers among them; each has links to all others.
NODES_MAX: Final = 64
#: Workers of one host, each a node.
WORKERS_MAX: Final = 32
#: Names of nodes that were taken out of a cluster, the newest of them.
FORGOTTEN_MAX: Final = 256
COMMAND_BYTES_MAX: Final = 48 * KIB
OPERATIONS_PER_COMMAND_MAX: Final = 200
COMMANDS_IN_FLIGHT_MAX: Final = 1_024
#: Commands in which a leader proposes what it has decided, at once; the rest with its next tick.
DECISIONS_PER_TICK_MAX: Final = 32
REQUESTS_REMEMBERED_MAX: Final = 4_096
REQUESTS_REMEMBERED_BYTES_MAX: Final = 16 * MIB
MAP_OBJECTS_MAX: Final = 50_000
#: So many of them are for operators and members: a map that clients have filled can be managed.
MAP_RESERVE_PERCENT: Final = 2
#: What all objects may take of a snapshot, as JSON, and how far operators and members may go
#: beyond it. With the requests that are remembered it stays far below `SNAPSHOT_BYTES_MAX`.
MAP_BYTES_MAX: Final = 64 * MIB
MAP_RESERVE_BYTES: Final = 8 * MIB
SNAPSHOT_BYTES_MAX: Final = 256 * MIB
#: The arguments of one exchange, queue or binding, as JSON.
ARGUMENTS_BYTES_MAX: Final = 4 * KIB

# --- access: virtual hosts, users, permissions -----------------------------------------------
VHOSTS_MAX: Final = 1_000
USERS_MAX: Final = 10_000
#: At a time: each costs every run of messages something.
TRACES_MAX: Final = 16
#: Pairs of user and virtual host.
PERMISSIONS_MAX: Final = 20_000
#: Policies of users, and of operators; and the steps of the patterns of those of a virtual host,
#: which all are tried on a name at once.
POLICIES_MAX: Final = 2_000
POLICY_STEPS_MAX: Final = 10_000
#: Runtime parameters, global ones among them, and those that are shovels.
PARAMETERS_MAX: Final = 1_000
SHOVELS_MAX: Final = 200
TAGS_PER_USER_MAX: Final = 16
PASSWORD_BYTES_MAX: Final = 1_024
#: A stored password: scheme, cost, salt and key as text.
PASSWORD_RECORD_BYTES_MAX: Final = 255
#: A regular expression of a permission, and the steps of the program it becomes.
PATTERN_BYTES_MAX: Final = 1_024
PATTERN_STEPS_MAX: Final = 1_000
#: Users of the configuration with which a cluster begins.
FIRST_USERS_MAX: Final = 64
#: Logins that a node remembers, so that the next one with the same password costs next to nothing.
LOGINS_REMEMBERED_MAX: Final = 4_096
FAILED_LOGINS_REMEMBERED_MAX: Final = 512
#: Passwords that a node verifies at a cost, beside its turns; other logins wait meanwhile.
LOGINS_VERIFIED_S: Final = 20
LOGINS_VERIFIED_BURST: Final = 20
#: So many are handed over at a time: one is verified, and the next is there when it is.
LOGINS_RUNNING_MAX: Final = 2
#: Passwords that turn out wrong, at a cost: of one user from one place.
FAILED_LOGINS_PER_USER_S: Final = 1
FAILED_LOGINS_PER_USER_BURST: Final = 5
#: So many failed logins, and TLS handshakes, are told one by one in ten seconds.
FAILED_LOGINS_TOLD: Final = 5
#: Wrong passwords of users that the admin port verifies.
ADMIN_FAILED_LOGINS_S: Final = 10
ADMIN_FAILED_LOGINS_BURST: Final = 20

# --- peers -----------------------------------------------------------------------------------
PEER_FRAME_BYTES_MAX: Final = 4 * MIB
#: A message, or a record, that is so long follows its frame, in pieces of so many bytes.
PEER_LONG_BYTES_MIN: Final = MIB
PEER_PIECE_BYTES_MAX: Final = 512 * KIB
#: What one link may hold unacknowledged before its senders are held back.
PEER_WINDOW_BYTES_MAX: Final = 32 * MIB
#: A peer for which so much waits, in messages or bytes, must acknowledge what it was told within
#: this time; what it says meanwhile is not heard.
UNACKED_MESSAGES_MAX: Final = 10_000
UNACKED_BYTES_MAX: Final = 64 * MIB
UNACKED_STALL_MS: Final = 5_000
INTEREST_KEYS_PER_EXCHANGE_MAX: Final = 1_000
#: What a node says at once of what its private queues want.
INTEREST_PIECE_BYTES_MAX: Final = 256 * KIB

#: Starts of its node that a data directory remembers.
STARTS_REMEMBERED_MAX: Final = 256

# --- queues and windows ----------------------------------------------------------------------
#: Dead letters of one fragment that are on their way at once, and those that a node sends in a
#: turn: a turn must not take longer than a lease, whatever falls due in it.
DEAD_LETTERS_MAX: Final = 1_000
#: Connections, channels and consumers that one page of a list looks at.
LISTED_PER_PAGE_MAX: Final = 5_000
#: Tickets of one node's consumers that a fragment bears in mind until the node has heard of them.
TICKETS_GIVEN_MAX: Final = 1_000
#: Messages of one fragment that expire, or become due, in one look at it.
DUE_PER_LOOK_MAX: Final = 5_000
#: What one transaction may publish, in bytes of messages and in messages with settlements.
TRANSACTION_BYTES_MAX: Final = 64 * MIB
TRANSACTION_STEPS_MAX: Final = 50_000
REPLICAS_DEFAULT: Final = 2
REPLICAS_MAX: Final = 5
FRAGMENTS_PER_QUEUE_MAX: Final = 64
#: Unconfirmed publishes of one node to one fragment.
PUBLISH_WINDOW_BYTES_MIN: Final = 256 * KIB
PUBLISH_WINDOW_BYTES_MAX: Final = 16 * MIB
#: Standing credit of one node with one remote fragment, in messages.
CREDIT_WINDOW_MAX: Final = 1_000
#: What readers of all streams together have in memory that was read from the disk is a part of the
#: node's memory, and so much at least; what is read in one go, at least and at most; and how far
#: ahead of a reader.
STREAM_PAGES_BYTES_MIN: Final = MIB
STREAM_READ_BYTES_MIN: Final = 64 * KIB
STREAM_READ_BYTES_MAX: Final = MIB
STREAM_AHEAD_BYTES_MAX: Final = 4 * MIB
#: Values in a filter of a reader, and their bytes together; filters of a node's readers of one
#: stream that differ.
STREAM_FILTER_VALUES_MAX: Final = 64
STREAM_FILTER_BYTES_MAX: Final = 4 * KIB
STREAM_FILTERS_MAX: Final = 512
#: Names of readers that a stream keeps places for.
STREAM_NAMES_MAX: Final = 1_000
#: Readers of a queue by reservation that a fragment knows; what may be reserved of it by all of
#: them, and by one call; and messages between two looks at the budget.
QUEUE_READERS_MAX: Final = 64
RESERVED_MAX: Final = 20_000
RESERVED_BYTES_MAX: Final = 64 * MIB
RESERVED_AT_ONCE_MAX: Final = 10_000
RESERVED_AT_ONCE_BYTES_MAX: Final = 16 * MIB
RESERVED_PIECE: Final = 500
#: And readers with names, on all nodes.
STREAM_MEMBERS_MAX: Final = 20_000
#: Publishers with names that a fragment remembers; ranges of what it refused of one of them.
PUBLISHERS_KNOWN_MAX: Final = 1_024
PUBLISHER_REFUSED_MAX: Final = 64
#: For how long a name is remembered of which nothing is taken, if there are not too many.
PUBLISHER_IDLE_MS_MAX: Final = 7 * 24 * 3_600_000
#: So long a fragment must have had no traffic, and been led by its node, before it is retired.
RETIRE_IDLE_MS: Final = 600_000
RETIRE_AGE_MS: Final = 1_800_000
#: What is before the last of these in a name is its series, of which so many names are remembered.
PUBLISHER_SERIES_END: Final = "\x1f"
PUBLISHER_SERIES_MAX: Final = 3
#: What names of the fragments that a node leads may take of its memory, as a shift.
PUBLISHERS_MEMORY_SHIFT: Final = 4
#: The highest sequence of a publisher with a name.
SEQUENCE_MAX: Final = (1 << 63) - 1
#: Where several nodes have consumers: how much work fast ones may have waiting with them, and how
#: long messages wait for somebody to have room before all are given more. In milliseconds.
KEEP_UP_MS_MAX: Final = 25
#: What the consumers of a node may be found to keep up with, in messages.
KEEP_UP_WINDOW_MAX: Final = 1_000_000
#: What one turn hands to one consumer without a prefetch limit, in messages.
DELIVERY_BATCH_MAX: Final = 500
#: When so much of one client's bytes waits behind its requests, it is not read.
WAITING_BYTES_MAX: Final = MIB
#: A client with so much unread in its socket's buffer, or written to it in one turn, has enough:
#: what it asks for next waits.
UNREAD_BYTES_MAX: Final = 256 * KIB
#: Of a client that speaks TLS so much is encrypted at a time, and so much of that waits in its
#: transport before it has enough: with what the transport below holds, `UNREAD_BYTES_MAX` in all.
TLS_PIECE_BYTES_MAX: Final = 64 * KIB
TLS_UNREAD_BYTES_MAX: Final = 64 * KIB
#: While what clients do not read takes more than its share of a node's memory, those who have read
#: nothing for so long are cut off.
UNREAD_STALL_MS: Final = 5_000
#: What one turn writes to one connection in deliveries; the rest waits for the next turn.
DELIVERY_BYTES_PER_TURN_MAX: Final = MIB
#: What a node does in one turn, in units of about a microsecond of compiled code (`core.work`); the
#: rest waits for the next turn.
WORK_PER_TURN: Final = 20_000
#: A delivery to a private queue is one unit, and one more for so many bytes of its message.
FAN_OUT_BYTES_PER_DELIVERY: Final = KIB
#: So many bytes that are copied to a client, or taken from a peer, are a unit of work (as a shift).
WORK_BYTES_SHIFT: Final = 11
COPY_CHUNK_BYTES_MAX: Final = 256 * KIB
#: Chunks of one copy that are under way until its node has them on disk; and if as much as
#: `COPY_PRESSED_BYTES_MIN` is on its way to that node, for whatever reason.
COPY_CHUNKS_IN_FLIGHT_MAX: Final = 16
COPY_CHUNKS_IN_FLIGHT_MIN: Final = 4
COPY_PRESSED_BYTES_MIN: Final = 4 * MIB
#: Fragments that a node hands over to another one at a time.
HAND_OVERS_IN_FLIGHT_MAX: Final = 256
#: And of those that can wait: each of them keeps publishers waiting for a moment.
PLANNED_HAND_OVERS_MAX: Final = 32
#: A new copy that was seen to be so close behind its primary, in milliseconds, is waited for by
#: commits until it has caught up: confirms of that fragment take so much longer, once.
COPY_BEHIND_MS_MAX: Final = 250
#: What a node may hold in memory where the machine does not say what it has; else so much of that.
NODE_MEMORY_BYTES_MAX: Final = 4 * 1024 * MIB
MEMORY_SHARE_PERCENT: Final = 40
#: Messages that a node names when it has to stop, what it tries of them to find the one that did
#: it, and what it keeps of them for its operator.
SUSPECTS_MAX: Final = 1_024
SUSPECTS_TRIED_BYTES_MAX: Final = 16 * MIB
SUSPECTS_KEPT_BYTES_MAX: Final = MIB
#: Characters of what a node says of its stop, and of its exception.
STOP_WORDS_MAX: Final = 1_000
#: Messages that a node recognises because it, or another one, failed at them; and for how long
#: those of which that was not found to be so.
SUSPECTS_KNOWN_MAX: Final = 4_096
SUSPECTS_UNPROVEN_MS: Final = 60_000
#: A copy that a node could not keep is begun anew after so long, each time four times as long.
FAILED_COPY_MS_MIN: Final = 2_000
FAILED_COPY_MS_MAX: Final = 300_000

#: A step of the cluster map that failed on a node is tried again after so long, in milliseconds,
#: and at last every so often.
FAILED_STEP_MS_MIN: Final = 1_000
FAILED_STEP_MS_MAX: Final = 60_000
#: Messages in quarantine that a node shows, or does something with, at once.
ASIDES_PER_ANSWER_MAX: Final = 1_000
#: Last words of one peer that are heard.
LAST_WORDS_HEARD_S: Final = 1
LAST_WORDS_HEARD_BURST: Final = 10
#: How long a node that has to stop waits for its last words to leave.
LAST_WORDS_MS: Final = 500
#: With less free on the disk of its data, a node's publishers wait (RabbitMQ's default).
DISK_FREE_BYTES_MIN: Final = 50_000_000

assert HANDSHAKE_FRAME_BYTES_MAX <= FRAME_BYTES_MAX
assert FRAME_BYTES_MAX < PEER_FRAME_BYTES_MAX
assert READ_BYTES_PER_TURN_MAX <= TURN_BYTES_MAX
assert BODY_BYTES_MAX < RECORD_BYTES_MAX
assert TRANSACTION_BYTES_MAX < RECORD_BYTES_MAX // 2
assert 2 * (MAP_BYTES_MAX + MAP_RESERVE_BYTES + REQUESTS_REMEMBERED_BYTES_MAX) < SNAPSHOT_BYTES_MAX
assert (
    PEER_CONNECTIONS_MAX + ADMIN_CONNECTIONS_MAX + HTTP_CONNECTIONS_MAX + HTTP_CLIENTS_MAX
    + SPARE_DESCRIPTORS + SURPLUS_CLIENTS_MAX < RESERVED_DESCRIPTORS - 48
)  # fmt: skip
assert COPY_CHUNK_BYTES_MAX < PEER_FRAME_BYTES_MAX <= PEER_WINDOW_BYTES_MAX
