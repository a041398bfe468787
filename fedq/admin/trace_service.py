"""The calls of the admin service about traces and the firehose.

A part of `fedq.admin.service`; what is said and done is in `fedq.admin.trace_answers`.
"""

import grpc
import grpc.aio

from fedq.admin.bounds import CHANGE_MS
from fedq.admin.calls import reply, timeout_s
from fedq.admin.trace_answers import TraceAnswers
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc


class TraceService(admin_pb2_grpc.AdminServicer):
    """The calls about traces of one node's admin service."""

    #: Set by the whole service.
    _traces: TraceAnswers

    # The generated base class gives the methods their names.
    # ruff: noqa: N802

    async def StartTrace(
        self,
        request: pb.StartTraceRequest,
        context: grpc.aio.ServicerContext[pb.StartTraceRequest, pb.StartTraceReply],
    ) -> pb.StartTraceReply:
        """Begins a trace."""
        return await reply(context, self._traces.start(request, timeout_s(context, CHANGE_MS)))

    async def StopTrace(
        self,
        request: pb.StopTraceRequest,
        context: grpc.aio.ServicerContext[pb.StopTraceRequest, pb.StopTraceReply],
    ) -> pb.StopTraceReply:
        """Ends a trace."""
        return await reply(context, self._traces.stop(request, timeout_s(context, CHANGE_MS)))

    async def ListTraces(
        self,
        request: pb.ListTracesRequest,
        context: grpc.aio.ServicerContext[pb.ListTracesRequest, pb.ListTracesReply],
    ) -> pb.ListTracesReply:
        """All traces."""
        return await reply(context, self._traces.list())

    async def SetFirehose(
        self,
        request: pb.SetFirehoseRequest,
        context: grpc.aio.ServicerContext[pb.SetFirehoseRequest, pb.SetFirehoseReply],
    ) -> pb.SetFirehoseReply:
        """Switches the firehose of a virtual host."""
        timeout = timeout_s(context, CHANGE_MS)
        return await reply(context, self._traces.set_firehose(request, timeout))
