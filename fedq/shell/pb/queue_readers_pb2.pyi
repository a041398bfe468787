from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ("vhost", "queue")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class DescribeReply(_message.Message):
    __slots__ = ("node", "fragments")
    NODE_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    node: str
    fragments: _containers.RepeatedCompositeFieldContainer[Fragment]
    def __init__(self, node: _Optional[str] = ..., fragments: _Optional[_Iterable[_Union[Fragment, _Mapping]]] = ...) -> None: ...

class Fragment(_message.Message):
    __slots__ = ("fragment", "home", "served", "ready", "reserved")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    HOME_FIELD_NUMBER: _ClassVar[int]
    SERVED_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    home: str
    served: bool
    ready: int
    reserved: int
    def __init__(self, fragment: _Optional[int] = ..., home: _Optional[str] = ..., served: _Optional[bool] = ..., ready: _Optional[int] = ..., reserved: _Optional[int] = ...) -> None: ...

class ReserveRequest(_message.Message):
    __slots__ = ("vhost", "queue", "fragment", "reader", "instance", "begins", "after", "most")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    fragment: int
    reader: str
    instance: str
    begins: bool
    after: int
    most: int
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., fragment: _Optional[int] = ..., reader: _Optional[str] = ..., instance: _Optional[str] = ..., begins: _Optional[bool] = ..., after: _Optional[int] = ..., most: _Optional[int] = ...) -> None: ...

class ReserveReply(_message.Message):
    __slots__ = ("through", "messages")
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    through: int
    messages: int
    def __init__(self, through: _Optional[int] = ..., messages: _Optional[int] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("vhost", "queue", "fragment", "reader", "after", "through", "begin", "part_bytes")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    PART_BYTES_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    fragment: int
    reader: str
    after: int
    through: int
    begin: int
    part_bytes: int
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., fragment: _Optional[int] = ..., reader: _Optional[str] = ..., after: _Optional[int] = ..., through: _Optional[int] = ..., begin: _Optional[int] = ..., part_bytes: _Optional[int] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("ranges", "lengths", "data", "data_bytes", "next")
    RANGES_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DATA_BYTES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    ranges: _containers.RepeatedCompositeFieldContainer[Offsets]
    lengths: bytes
    data: bytes
    data_bytes: int
    next: int
    def __init__(self, ranges: _Optional[_Iterable[_Union[Offsets, _Mapping]]] = ..., lengths: _Optional[bytes] = ..., data: _Optional[bytes] = ..., data_bytes: _Optional[int] = ..., next: _Optional[int] = ...) -> None: ...

class Offsets(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class SettleRequest(_message.Message):
    __slots__ = ("vhost", "queue", "fragment", "reader", "instance", "through")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    fragment: int
    reader: str
    instance: str
    through: int
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., fragment: _Optional[int] = ..., reader: _Optional[str] = ..., instance: _Optional[str] = ..., through: _Optional[int] = ...) -> None: ...

class SettleReply(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: int
    def __init__(self, messages: _Optional[int] = ...) -> None: ...
