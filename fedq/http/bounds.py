"""Every bound of the HTTP ports, with its unit last (those of descriptors: `fedq.core.limits`)."""

from typing import Final

#: Of a request's line and headers together, and of its body.
HTTP_HEAD_BYTES_MAX: Final = 16 * 1024
HTTP_BODY_BYTES_MAX: Final = 1024 * 1024
#: Of the body of any other request than one that publishes: as JSON it takes thirty times as much.
HTTP_TABLE_BYTES_MAX: Final = 32 * 1024
#: Long bodies that are there as JSON; others wait as they came.
HTTP_LONG_TABLES_MAX: Final = 2
#: How long a connection may take from one answer, or its accept, to having taken the next one.
HTTP_REQUEST_S: Final = 30.0
HTTP_TLS_HANDSHAKE_S: Final = 5.0
#: What of a core the thread may take, in percent, and what at once.
HTTP_CPU_PERCENT: Final = 25
HTTP_CPU_BURST_MS: Final = 50
#: How often that is looked at.
HTTP_LOOK_MS: Final = 10
#: Questions to the node that are under way; others wait.
HTTP_QUESTIONS_MAX: Final = 4
#: How long a request may take that is carried out over AMQP.
HTTP_AMQP_S: Final = 15.0
#: Messages of one answer, and the bytes of their bodies together; of a body no more is shown.
HTTP_MESSAGES_MAX: Final = 1_000
HTTP_MESSAGES_BYTES_MAX: Final = 4 * 1024 * 1024
#: What of the node's own time questions take, in percent, and for how long one is paid off at most.
HTTP_NODE_PERCENT: Final = 25
HTTP_NODE_PAUSE_MS: Final = 1_000
#: Rows that one question fetches: of queues, which are put together; of clients; of others.
HTTP_QUEUES_AT_ONCE: Final = 50
HTTP_CLIENTS_AT_ONCE: Final = 100
HTTP_ROWS_AT_ONCE: Final = 500
#: Rows of one list; whoever has more asks for pages.
HTTP_ROWS_MAX: Final = 50_000
#: Rows that are all gathered because they are sorted by a figure.
HTTP_ROWS_SORTED_MAX: Final = 10_000
#: What a pattern for names may take of the thread's processor time.
HTTP_MATCHING_MS: Final = 2_000
#: Changes of the cluster map that are under way; without a quorum each waits long.
HTTP_CHANGES_MAX: Final = 2
#: How long sums of messages stand: so long at least, and in proportion to what they took.
HTTP_TOTALS_FRESH_S: Final = 1.0
HTTP_TOTALS_FRESH_TIMES: Final = 3
#: How far apart two looks at a counter are at least that make a rate; and how many are remembered.
HTTP_RATES_S: Final = 4.0
HTTP_RATES_MAX: Final = 60_000
#: How long the status stands at least: it walks over all fragments.
HTTP_STATUS_FRESH_S: Final = 4.0
#: Objects of a kind on the page of metrics by object.
METRIC_OBJECTS_MAX: Final = 20_000
#: How long a page of metrics stands: so long at least, and in proportion to what it took.
METRICS_FRESH_S: Final = 1.0
METRICS_FRESH_TIMES: Final = 3
#: Fragments, queues and the like that one turn looks at for metrics.
METRICS_PER_TURN: Final = 500
