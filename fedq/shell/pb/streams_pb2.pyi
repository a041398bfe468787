from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ("vhost", "stream", "times")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    stream: str
    times: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, vhost: _Optional[str] = ..., stream: _Optional[str] = ..., times: _Optional[_Iterable[int]] = ...) -> None: ...

class DescribeReply(_message.Message):
    __slots__ = ("node", "fragments")
    NODE_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    node: str
    fragments: _containers.RepeatedCompositeFieldContainer[Fragment]
    def __init__(self, node: _Optional[str] = ..., fragments: _Optional[_Iterable[_Union[Fragment, _Mapping]]] = ...) -> None: ...

class Fragment(_message.Message):
    __slots__ = ("number", "home", "served")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    HOME_FIELD_NUMBER: _ClassVar[int]
    SERVED_FIELD_NUMBER: _ClassVar[int]
    number: int
    home: str
    served: Served
    def __init__(self, number: _Optional[int] = ..., home: _Optional[str] = ..., served: _Optional[_Union[Served, _Mapping]] = ...) -> None: ...

class Served(_message.Message):
    __slots__ = ("first", "next", "ranges", "since")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    first: int
    next: int
    ranges: _containers.RepeatedCompositeFieldContainer[OffsetRange]
    since: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, first: _Optional[int] = ..., next: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[OffsetRange, _Mapping]]] = ..., since: _Optional[_Iterable[int]] = ...) -> None: ...

class OffsetRange(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("vhost", "stream", "fragment", "begin", "end", "chunk_bytes", "routes")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    CHUNK_BYTES_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    stream: str
    fragment: int
    begin: int
    end: int
    chunk_bytes: int
    routes: Routes
    def __init__(self, vhost: _Optional[str] = ..., stream: _Optional[str] = ..., fragment: _Optional[int] = ..., begin: _Optional[int] = ..., end: _Optional[int] = ..., chunk_bytes: _Optional[int] = ..., routes: _Optional[_Union[Routes, _Mapping]] = ...) -> None: ...

class Routes(_message.Message):
    __slots__ = ("exchanges", "routing_keys", "routing_key_prefixes")
    EXCHANGES_FIELD_NUMBER: _ClassVar[int]
    ROUTING_KEYS_FIELD_NUMBER: _ClassVar[int]
    ROUTING_KEY_PREFIXES_FIELD_NUMBER: _ClassVar[int]
    exchanges: _containers.RepeatedScalarFieldContainer[bytes]
    routing_keys: _containers.RepeatedScalarFieldContainer[bytes]
    routing_key_prefixes: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, exchanges: _Optional[_Iterable[bytes]] = ..., routing_keys: _Optional[_Iterable[bytes]] = ..., routing_key_prefixes: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("ranges", "times", "lengths", "data", "data_bytes", "first", "next", "looked")
    RANGES_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DATA_BYTES_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    LOOKED_FIELD_NUMBER: _ClassVar[int]
    ranges: _containers.RepeatedCompositeFieldContainer[OffsetRange]
    times: _containers.RepeatedCompositeFieldContainer[CameAt]
    lengths: bytes
    data: bytes
    data_bytes: int
    first: int
    next: int
    looked: _containers.RepeatedCompositeFieldContainer[OffsetRange]
    def __init__(self, ranges: _Optional[_Iterable[_Union[OffsetRange, _Mapping]]] = ..., times: _Optional[_Iterable[_Union[CameAt, _Mapping]]] = ..., lengths: _Optional[bytes] = ..., data: _Optional[bytes] = ..., data_bytes: _Optional[int] = ..., first: _Optional[int] = ..., next: _Optional[int] = ..., looked: _Optional[_Iterable[_Union[OffsetRange, _Mapping]]] = ...) -> None: ...

class CameAt(_message.Message):
    __slots__ = ("offset", "unix_ms")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    unix_ms: int
    def __init__(self, offset: _Optional[int] = ..., unix_ms: _Optional[int] = ...) -> None: ...
