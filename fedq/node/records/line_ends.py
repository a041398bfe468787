"""Names without line ends, as RabbitMQ keeps them.

RabbitMQ strips CR and LF from the names of queues and exchanges where these are declared, deleted,
bound and unbound, and nowhere else: a publish or a get that names them so finds nothing. What is
left of a name that held nothing else stands for no queue, not for the last declared one.
"""

from fedq.amqp import method_types as m


def stripped(method: m.ClientRequest) -> m.ClientRequest:
    """The method with the names that its client meant."""
    match method:
        case m.QueueDeclare() if has_line_ends(method.queue):
            name = strip(method.queue)
            return method if method.passive and not name else method._replace(queue=name)
        case m.QueueDelete() if has_line_ends(method.queue):
            return method._replace(queue=strip(method.queue) or method.queue)
        case m.QueueBind() if has_line_ends(method.queue + method.exchange):
            queue, exchange = _name(method.queue), strip(method.exchange)
            return method._replace(queue=queue, exchange=exchange)
        case m.QueueUnbind() if has_line_ends(method.queue + method.exchange):
            queue, exchange = _name(method.queue), strip(method.exchange)
            return method._replace(queue=queue, exchange=exchange)
        case m.ExchangeDeclare() if has_line_ends(method.exchange):
            return method._replace(exchange=strip(method.exchange))
        case m.ExchangeDelete() if has_line_ends(method.exchange):
            return method._replace(exchange=strip(method.exchange))
        case m.ExchangeBind() if has_line_ends(method.destination + method.source):
            destination, source = strip(method.destination), strip(method.source)
            return method._replace(destination=destination, source=source)
        case m.ExchangeUnbind() if has_line_ends(method.destination + method.source):
            destination, source = strip(method.destination), strip(method.source)
            return method._replace(destination=destination, source=source)
        case _:
            return method


def has_line_ends(text: str) -> bool:
    """Whether there is anything to strip."""
    return "\n" in text or "\r" in text


def strip(text: str) -> str:
    """The text without CR and LF."""
    return text.replace("\r", "").replace("\n", "")


def _name(queue: str) -> str:
    """The name of a queue; one of line ends alone stays: it must not come to mean another."""
    return strip(queue) or queue
