"""What one tenant does to its bindings costs the others nothing."""

from fedq.core.ids import NodeId, QueueKey
from fedq.core.message import make_route
from fedq.wiring.routing.route import Route
from fedq.wiring.routing.routes import Router

MINE, OTHERS = "mine", "others"
EXCHANGES = {"fanout": "fan", "topic": "topics", "direct": "direct"}


def router(cache_bytes_max: int = 1 << 20) -> Router:
    made = Router(NodeId("n1"), cache_bytes_max)
    for vhost in (MINE, OTHERS):
        for kind, name in EXCHANGES.items():
            made.add_exchange(QueueKey(vhost, name), kind)
            made.bind(QueueKey(vhost, name), QueueKey(vhost, "q"), "key", None)
    return made


def ask(made: Router, vhost: str, key: str = "key") -> list[Route | None]:
    return [made.route(vhost, make_route(name, key), dict) for name in EXCHANGES.values()]


def test_what_a_tenant_binds_and_unbinds_leaves_the_answers_of_others() -> None:
    made = router()
    before = ask(made, MINE), ask(made, OTHERS)
    made.walked = 0
    for name in EXCHANGES.values():
        made.bind(QueueKey(OTHERS, name), QueueKey(OTHERS, "more"), "key", None)
        made.unbind(QueueKey(OTHERS, name), QueueKey(OTHERS, "more"), "key", None)
    made.add_exchange(QueueKey(OTHERS, "new"), "fanout")
    made.remove_exchange(QueueKey(OTHERS, "new"))
    made.unbind_all(QueueKey(OTHERS, "gone"))
    assert ask(made, MINE) == before[0]
    assert made.walked == 0, "nothing was looked up anew"
    assert ask(made, OTHERS) == before[1]


def test_who_asks_for_ever_new_routes_forgets_its_own() -> None:
    made = router(cache_bytes_max=10_000)
    ask(made, MINE)
    for number in range(200):
        ask(made, OTHERS, f"key.{number}")
    made.walked = 0
    ask(made, MINE)
    assert made.walked == 0
