"""Every method of AMQP 0-9-1 as a named tuple of its arguments.

Field names and order are those of `fedq.amqp.spec` without the reserved fields; each docstring
says who sends the method, and its clause. Names are str, texts for machines bytes, tables dicts.
Methods are values: nobody changes the tables in them.
"""

from typing import Final, NamedTuple, TypeAlias

from fedq.amqp.values import FieldTable

NO_TABLE: Final[FieldTable] = {}


class ConnectionStart(NamedTuple):
    """Server: what it is, and how a client may authenticate (1.4.2.1)."""

    version_major: int = 0
    version_minor: int = 0
    server_properties: FieldTable = NO_TABLE
    mechanisms: bytes = b""
    locales: bytes = b""


class ConnectionStartOk(NamedTuple):
    """Client: what it is, the mechanism it chose and its answer (1.4.2.2)."""

    client_properties: FieldTable = NO_TABLE
    mechanism: str = ""
    response: bytes = b""
    locale: str = ""


class ConnectionSecure(NamedTuple):
    """Server: a further question of the mechanism (1.4.2.3)."""

    challenge: bytes = b""


class ConnectionSecureOk(NamedTuple):
    """Client: the answer to `ConnectionSecure` (1.4.2.4)."""

    response: bytes = b""


class ConnectionTune(NamedTuple):
    """Server: its limits; heartbeat in seconds, 0 for none (1.4.2.5)."""

    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


class ConnectionTuneOk(NamedTuple):
    """Client: the limits to use (1.4.2.6)."""

    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


class ConnectionOpen(NamedTuple):
    """Client: the virtual host it wants (1.4.2.7)."""

    virtual_host: str = ""


class ConnectionOpenOk(NamedTuple):
    """Server: the connection is ready (1.4.2.8)."""


class ConnectionClose(NamedTuple):
    """Either: the connection ends, and why; names the method at fault (1.4.2.9)."""

    reply_code: int = 0
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


class ConnectionCloseOk(NamedTuple):
    """Either: agreed; nothing follows (1.4.2.10)."""


class ConnectionBlocked(NamedTuple):
    """Server: publishes are held back (RabbitMQ)."""

    reason: str = ""


class ConnectionUnblocked(NamedTuple):
    """Server: publishes flow again (RabbitMQ)."""


class ConnectionUpdateSecret(NamedTuple):
    """Client: a fresh credential of its user (RabbitMQ)."""

    new_secret: bytes = b""
    reason: str = ""


class ConnectionUpdateSecretOk(NamedTuple):
    """Server: the credential was taken (RabbitMQ)."""


class ChannelOpen(NamedTuple):
    """Client: opens the channel (1.5.2.1)."""


class ChannelOpenOk(NamedTuple):
    """Server: the channel is open."""


class ChannelFlow(NamedTuple):
    """Either: stop or restart sending contents (1.5.2.3)."""

    active: bool = False


class ChannelFlowOk(NamedTuple):
    """Either: contents are stopped or restarted, as `ChannelFlow` asked (1.5.2.4)."""

    active: bool = False


class ChannelClose(NamedTuple):
    """Either: the channel ends, and why; names the method at fault (1.5.2.5)."""

    reply_code: int = 0
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


class ChannelCloseOk(NamedTuple):
    """Either: agreed; the number is free again."""


class AccessRequest(NamedTuple):
    """Client: asks for a ticket, as it was in AMQP 0-8; tickets mean nothing (RabbitMQ)."""

    realm: str = ""
    exclusive: bool = False
    passive: bool = False
    active: bool = False
    write: bool = False
    read: bool = False


class AccessRequestOk(NamedTuple):
    """Server: a ticket, which means nothing (RabbitMQ)."""

    ticket: int = 0


class ExchangeDeclare(NamedTuple):
    """Client: creates or verifies an exchange (1.6.2.1)."""

    exchange: str = ""
    type: str = ""
    passive: bool = False
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    no_wait: bool = False
    arguments: FieldTable = NO_TABLE


class ExchangeDeclareOk(NamedTuple):
    """Server: the exchange exists (1.6.2.2)."""


class ExchangeDelete(NamedTuple):
    """Client: deletes an exchange (1.6.2.3)."""

    exchange: str = ""
    if_unused: bool = False
    no_wait: bool = False


class ExchangeDeleteOk(NamedTuple):
    """Server: the exchange is gone (1.6.2.4)."""


class ExchangeBind(NamedTuple):
    """Client: messages flow from `source` to `destination` (RabbitMQ)."""

    destination: str = ""
    source: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: FieldTable = NO_TABLE


class ExchangeBindOk(NamedTuple):
    """Server: messages flow from `source` to `destination` now (RabbitMQ)."""


class ExchangeUnbind(NamedTuple):
    """Client: messages flow from `source` to `destination` no longer (RabbitMQ)."""

    destination: str = ""
    source: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: FieldTable = NO_TABLE


class ExchangeUnbindOk(NamedTuple):
    """Server: messages flow from `source` to `destination` no longer (RabbitMQ)."""


class QueueDeclare(NamedTuple):
    """Client: creates or verifies a queue; "" asks for a name (1.7.2.1)."""

    queue: str = ""
    passive: bool = False
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    no_wait: bool = False
    arguments: FieldTable = NO_TABLE


class QueueDeclareOk(NamedTuple):
    """Server: the queue exists, under this name (1.7.2.2)."""

    queue: str = ""
    message_count: int = 0
    consumer_count: int = 0


class QueueBind(NamedTuple):
    """Client: the queue hears an exchange (1.7.2.3)."""

    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: FieldTable = NO_TABLE


class QueueBindOk(NamedTuple):
    """Server: the queue hears the exchange now (1.7.2.4)."""


class QueuePurge(NamedTuple):
    """Client: drops all messages that nobody holds (1.7.2.7)."""

    queue: str = ""
    no_wait: bool = False


class QueuePurgeOk(NamedTuple):
    """Server: the queue was purged of `message_count` messages (1.7.2.8)."""

    message_count: int = 0


class QueueDelete(NamedTuple):
    """Client: deletes a queue (1.7.2.9)."""

    queue: str = ""
    if_unused: bool = False
    if_empty: bool = False
    no_wait: bool = False


class QueueDeleteOk(NamedTuple):
    """Server: the queue is gone, with `message_count` messages (1.7.2.10)."""

    message_count: int = 0


class QueueUnbind(NamedTuple):
    """Client: the queue hears an exchange no longer (1.7.2.5)."""

    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    arguments: FieldTable = NO_TABLE


class QueueUnbindOk(NamedTuple):
    """Server: the queue hears the exchange no longer (1.7.2.6)."""


class BasicQos(NamedTuple):
    """Client: how much may be unacknowledged; `global_`: per channel (1.8.3.1)."""

    prefetch_size: int = 0
    prefetch_count: int = 0
    global_: bool = False


class BasicQosOk(NamedTuple):
    """Server: the new bounds of `BasicQos` count from now on (1.8.3.2)."""


class BasicConsume(NamedTuple):
    """Client: starts a consumer; "" asks for a tag (1.8.3.3)."""

    queue: str = ""
    consumer_tag: str = ""
    no_local: bool = False
    no_ack: bool = False
    exclusive: bool = False
    no_wait: bool = False
    arguments: FieldTable = NO_TABLE


class BasicConsumeOk(NamedTuple):
    """Server: the consumer runs, under this tag (1.8.3.4)."""

    consumer_tag: str = ""


class BasicCancel(NamedTuple):
    """Client: ends a consumer; server: the consumer was ended (1.8.3.5)."""

    consumer_tag: str = ""
    no_wait: bool = False


class BasicCancelOk(NamedTuple):
    """Either: the consumer of `BasicCancel` has ended (1.8.3.6)."""

    consumer_tag: str = ""


class BasicPublish(NamedTuple):
    """Client: a content for an exchange follows (1.8.3.7)."""

    exchange: str = ""
    routing_key: str = ""
    mandatory: bool = False
    immediate: bool = False


class BasicReturn(NamedTuple):
    """Server: a publish that could not be routed comes back (1.8.3.8)."""

    reply_code: int = 0
    reply_text: str = ""
    exchange: str = ""
    routing_key: str = ""


class BasicDeliver(NamedTuple):
    """Server: a content for a consumer follows (1.8.3.9)."""

    consumer_tag: str = ""
    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""


class BasicGet(NamedTuple):
    """Client: asks for one message (1.8.3.10)."""

    queue: str = ""
    no_ack: bool = False


class BasicGetOk(NamedTuple):
    """Server: the message that `BasicGet` asked for; `message_count` are left (1.8.3.11)."""

    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""
    message_count: int = 0


class BasicGetEmpty(NamedTuple):
    """Server: the queue has no message for `BasicGet` (1.8.3.12)."""


class BasicAck(NamedTuple):
    """Either: the receiver is done with a delivery, or with a publish (1.8.3.13)."""

    delivery_tag: int = 0
    multiple: bool = False


class BasicReject(NamedTuple):
    """Client: does not want a delivery (1.8.3.14)."""

    delivery_tag: int = 0
    requeue: bool = False


class BasicRecoverAsync(NamedTuple):
    """Client: as `BasicRecover`, without an answer (1.8.3.15)."""

    requeue: bool = False


class BasicRecover(NamedTuple):
    """Client: asks for the unacknowledged deliveries again (1.8.3.16)."""

    requeue: bool = False


class BasicRecoverOk(NamedTuple):
    """Server: the unacknowledged will be delivered again (1.8.3.17)."""


class BasicNack(NamedTuple):
    """Client: as reject, for many; server: a publish failed (RabbitMQ)."""

    delivery_tag: int = 0
    multiple: bool = False
    requeue: bool = False


class ConfirmSelect(NamedTuple):
    """Client: wants to hear what became of its publishes (RabbitMQ)."""

    no_wait: bool = False


class ConfirmSelectOk(NamedTuple):
    """Server: the client's publishes will be confirmed (RabbitMQ)."""


class TxSelect(NamedTuple):
    """Client: publishes and acknowledgements wait for a commit (1.9.2.1)."""


class TxSelectOk(NamedTuple):
    """Server: publishes and acknowledgements will wait for a commit (1.9.2.2)."""


class TxCommit(NamedTuple):
    """Client: carries out all of the transaction (1.9.2.3)."""


class TxCommitOk(NamedTuple):
    """Server: the transaction is carried out (1.9.2.4)."""


class TxRollback(NamedTuple):
    """Client: forgets all of the transaction (1.9.2.5)."""


class TxRollbackOk(NamedTuple):
    """Server: the transaction is forgotten (1.9.2.6)."""


Method: TypeAlias = (
    ConnectionStart | ConnectionStartOk | ConnectionSecure | ConnectionSecureOk | ConnectionTune
    | ConnectionTuneOk | ConnectionOpen | ConnectionOpenOk | ConnectionClose | ConnectionCloseOk
    | ConnectionBlocked | ConnectionUnblocked | ConnectionUpdateSecret
    | ConnectionUpdateSecretOk | ChannelOpen | ChannelOpenOk | ChannelFlow | ChannelFlowOk
    | ChannelClose | ChannelCloseOk | AccessRequest | AccessRequestOk
    | ExchangeDeclare | ExchangeDeclareOk | ExchangeDelete
    | ExchangeDeleteOk | ExchangeBind | ExchangeBindOk | ExchangeUnbind | ExchangeUnbindOk
    | QueueDeclare | QueueDeclareOk | QueueBind | QueueBindOk | QueuePurge | QueuePurgeOk
    | QueueDelete | QueueDeleteOk | QueueUnbind | QueueUnbindOk | BasicQos | BasicQosOk
    | BasicConsume | BasicConsumeOk | BasicCancel | BasicCancelOk | BasicPublish | BasicReturn
    | BasicDeliver | BasicGet | BasicGetOk | BasicGetEmpty | BasicAck | BasicReject
    | BasicRecoverAsync | BasicRecover | BasicRecoverOk | BasicNack | ConfirmSelect
    | ConfirmSelectOk | TxSelect | TxSelectOk | TxCommit | TxCommitOk | TxRollback | TxRollbackOk
)  # fmt: skip

#: What a client may ask for on an open channel, apart from contents and settling deliveries.
ClientRequest: TypeAlias = (
    ChannelFlow | ChannelFlowOk | ExchangeDeclare | ExchangeDelete | ExchangeBind
    | ExchangeUnbind | QueueDeclare | QueueBind | QueuePurge | QueueDelete | QueueUnbind
    | BasicQos | BasicConsume | BasicCancel | BasicGet | BasicRecoverAsync | BasicRecover
    | ConfirmSelect | TxSelect | TxCommit | TxRollback | ChannelClose
)  # fmt: skip
