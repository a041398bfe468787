"""The web page in a real browser: a person looks, and does what there is to do."""

from collections.abc import Iterator

import pytest

from tests.contract.http.story import ask
from tests.integration.browser import Page, a_browser
from tests.integration.harness import Cluster
from tests.integration.ports import free_ports

pytestmark = pytest.mark.slow

#: What would run if a name ever became markup.
EVIL = "<img src=x onerror=document.body.id='owned'>"
EVIL_PATH = "%3Cimg%20src%3Dx%20onerror%3Ddocument.body.id%3D'owned'%3E"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A browser."""
    with a_browser() as found:
        yield found


@pytest.fixture(scope="module")
def port(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The HTTP port of a node with some queues; not started where there is no browser."""
    (found,) = free_ports(1)
    cluster = Cluster(tmp_path_factory.mktemp("page"), names=("a",))
    with (cluster.nodes["a"].directory / "node.yaml").open("a") as settings:
        settings.write(f"http:\n  port: {found}\n")
    with cluster:
        for number in range(120):
            ask(found, "PUT", f"queues/%2F/orders.{number:03}", {"durable": True})
        ask(found, "PUT", f"queues/%2F/{EVIL_PATH}", {"durable": True})
        ask(found, "POST", f"bindings/%2F/e/amq.topic/q/{EVIL_PATH}", {"routing_key": EVIL})
        message = {
            "properties": {"headers": {EVIL: EVIL}}, "routing_key": EVIL, "payload": EVIL,
            "payload_encoding": "string",
        }  # fmt: skip
        ask(found, "POST", "exchanges/%2F/amq.topic/publish", message)
        yield found


def test_a_person_logs_in_and_sees_that_all_is_well(page: Page, port: int) -> None:
    page.open(port, password="wrong")
    page.reads("Login failed")
    page.log_in("guest", "guest")
    page.reads("Nothing is wrong")
    page.reads("121\nqueues")
    assert page.find("nav a[aria-current=page]")[0].text == "Overview"
    for view in ("Exchanges", "Connections", "Channels", "Consumers", "Users", "Virtual hosts"):
        page.go(view)
    page.go("Nodes")
    page.reads("leader")
    assert page.complaints() == []


def test_queues_are_filtered_sorted_and_turned_by_the_page(page: Page, port: int) -> None:
    page.open(port)
    page.go("Queues")
    page.reads("page 1 of 2")
    page.press("Next")
    page.reads("page 2 of 2")
    page.find("#filter")[0].send_keys("ORDERS.01")
    page.reads("10 of 121; page 1 of 1")
    page.press("Name", "thead")
    page.press("Name", "thead")
    page.wait(lambda: page.find("th[aria-sort=descending]"))
    page.wait(lambda: page.text("tbody tr:first-child td.name") == "orders.019")
    page.find("#regex")[0].click()
    page.find("#filter")[0].clear()
    page.find("#filter")[0].send_keys("(")
    page.reads("Pagination parameters are invalid")
    assert page.complaints() == []


def test_names_and_messages_of_others_stay_text(page: Page, port: int) -> None:
    page.open(port)
    page.go("Queues")
    page.find("#filter")[0].send_keys("onerror")
    page.reads("1 of 121")
    page.press(EVIL, "tbody")
    page.wait(lambda: page.text("main h2") == EVIL)
    page.reads("serving")
    page.press("Get messages")
    page.submit()
    page.reads("1 messages")
    assert EVIL in page.text("pre")
    assert page.driver.find_element("tag name", "body").get_attribute("id") != "owned"
    assert not page.find("main img")
    assert page.complaints() == []


def test_a_queue_is_declared_bound_used_and_deleted(page: Page, port: int) -> None:
    page.open(port)
    page.go("Queues")
    page.press("New queue")
    page.fill(name="mine", arguments="nonsense")
    page.find("dialog button[type=submit]")[0].click()
    page.reads("JSON", "dialog .wrong")
    page.fill(arguments='{"x-max-length": 7}')
    page.submit()
    page.find("#filter")[0].send_keys("mine")
    page.press("mine", "tbody")
    page.reads('{"x-max-length":7}')
    page.press("Bind")
    page.fill(source="amq.topic", key="a.b")
    page.submit()
    page.reads("a.b")
    page.press("Publish")
    page.fill(payload="hello")
    page.submit()
    page.reads("the message is in a queue", "#told")
    assert ask(port, "GET", "queues/%2F/mine?columns=messages")[1] == {"messages": 1}
    page.press("Purge")
    page.reads("1 ready messages are lost", "dialog")
    page.submit()
    page.reads("mine is purged", "#told")
    assert ask(port, "GET", "queues/%2F/mine?columns=messages")[1] == {"messages": 0}
    page.press("Delete", "main")
    page.press("Cancel", "dialog")
    page.wait(lambda: not page.find("dialog"))
    assert ask(port, "GET", "queues/%2F/mine")[0] == 200, "nothing goes before it is confirmed"
    page.press("Delete", "main")
    page.submit()
    page.reads("page 1 of 2")
    assert ask(port, "GET", "queues/%2F/mine")[0] == 404
    assert page.complaints() == []


def test_policies_are_made_changed_and_deleted(page: Page, port: int) -> None:
    page.open(port)
    page.go("Policies")
    page.press("New policy")
    page.fill(name="short", pattern="^orders", definition="nonsense")
    page.find("dialog button[type=submit]")[0].click()
    page.reads("JSON", "dialog .wrong")
    page.fill(definition='{"max-length": -1}')
    page.find("dialog button[type=submit]")[0].click()
    page.reads("not a valid maximum length", "dialog .wrong")
    page.fill(definition='{"max-length": 7}')
    page.submit()
    page.reads('{"max-length":7}')
    page.reads("queues and exchanges")
    shown = ask(port, "GET", "queues/%2F/orders.000?columns=policy")[1]
    assert shown == {"policy": "short"}
    page.press("Change", "tbody")
    page.fill(definition='{"max-length": 8}')
    page.submit()
    page.reads('{"max-length":8}')
    page.press("New operator policy")
    page.fill(name=EVIL, definition='{"expires": 100000000}')
    page.submit()
    page.reads(EVIL)
    assert page.find("#owned") == []
    for name in ("short", EVIL):
        page.press("Delete", "tbody")
        page.submit()
        page.reads(f"{name} is deleted", "#told")
    assert ask(port, "GET", "policies")[1] == ask(port, "GET", "operator-policies")[1] == []
    assert page.complaints() == []


def test_a_shovel_is_made_seen_and_deleted(page: Page, port: int) -> None:
    page.open(port)
    page.go("Shovels")
    page.press("New shovel")
    page.fill(name="move", source="orders.000", to="amqp://guest:s3cret@/", dest="elsewhere")
    page.fill(**{"from": "file:///etc/passwd"})
    page.find("dialog button[type=submit]")[0].click()
    page.reads("a URI begins with amqp://", "dialog .wrong")
    page.fill(**{"from": "amqp://guest:guest@/"})
    page.submit()
    page.reads("queue orders.000 at")
    page.reads("guest:***@")
    assert "s3cret" not in page.text()
    page.press("Delete", "tbody")
    page.submit()
    page.reads("move is deleted", "#told")
    assert ask(port, "GET", "parameters")[1] == []
    assert page.complaints() == []


def test_it_can_be_used_by_keys_and_read_aloud(page: Page, port: int) -> None:
    from selenium.webdriver.common.keys import Keys

    page.open(port)
    page.go("Queues")
    nameless = page.driver.execute_script(
        "return [...document.querySelectorAll('input, select, textarea, button, table')]"
        ".filter((each) => !(each.labels?.length || each.textContent.trim()"
        " || each.getAttribute('aria-label'))).map((each) => each.outerHTML)"
    )
    assert nameless == []
    page.find("#add-queue")[0].send_keys(Keys.ENTER)
    page.wait(lambda: page.find("dialog[open]"))
    assert page.driver.switch_to.active_element.get_attribute("name") == "vhost"
    page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.wait(lambda: not page.find("dialog"))
    assert page.driver.switch_to.active_element.get_attribute("id") == "add-queue"
    before = page.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    while "dark" not in page.text("#theme"):
        page.find("#theme")[0].send_keys(Keys.ENTER)
    after = page.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert before != after
    page.press("Log out")
    page.wait(lambda: page.find("form.login"))


def test_a_user_who_may_see_little_gets_a_page_all_the_same(page: Page, port: int) -> None:
    ask(port, "PUT", "users/clerk", {"password": "secret", "tags": "management"})
    ask(port, "PUT", "permissions/%2F/clerk", {"configure": "", "write": "", "read": ".*"})
    page.open(port, "clerk", "secret")
    page.reads("121\nqueues")
    assert "Nothing is wrong" not in page.text(), "nobody told it so"
    page.press("Users", "nav")
    page.reads("Not administrator user")
    page.go("Queues")
    page.press("Log out")
