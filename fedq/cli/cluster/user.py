"""`fedq user`: who may log in."""

from typing import Annotated

import typer

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.asking.forms import user_form
from fedq.cli.cluster.limits import MaxChannels, MaxConnections, list_limits, set_limits
from fedq.cli.terminal.failure import USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.password import PasswordOption, PasswordStdinOption, read_password
from fedq.cli.terminal.screen import console, print_json, say, table
from fedq.shell.pb import admin_pb2 as pb

app = typer.Typer(no_args_is_help=True, help="Add, change, delete and list users.")

UserArgument = Annotated[str, typer.Argument(help="The user's name.", show_default=False)]


@app.command("add")
@reporting
@asking_a_node
def add_user(
    endpoint: Endpoint,
    name: UserArgument,
    password: PasswordOption = None,
    password_stdin: PasswordStdinOption = False,
    no_password: Annotated[
        bool,
        typer.Option("--no-password", help="None: the user logs in by TLS certificate only."),
    ] = False,
    password_hash: Annotated[
        str,
        typer.Option(
            "--password-hash",
            metavar="BASE64",
            help="RabbitMQ's hash in place of a password.",
            show_default=False,
        ),
    ] = "",
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", help="A tag; may be given several times.", show_default=False),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Add a user; it may do nothing until `fedq permission set`."""
    secret = ""
    if password_hash and (no_password or password is not None or password_stdin):
        raise CommandError("--password-hash stands for a password; give one of them", USAGE)
    if not no_password and not password_hash:
        secret = read_password(password, password_stdin, twice=True)
    request = pb.PutUserRequest(
        name=name, password=secret, password_hash=password_hash, tags=tag or ()
    )
    with asking(endpoint) as asker:
        asker.ask(asker.stub.PutUser, request)
    say({"user": name}, f"user {name} added", json)


@app.command("delete")
@reporting
@asking_a_node
def delete_user(endpoint: Endpoint, name: UserArgument, json: JsonOption = False) -> None:
    """Delete a user with its permissions; its connections are closed."""
    with asking(endpoint) as asker:
        asker.ask(asker.stub.DeleteUser, pb.DeleteUserRequest(name=name))
    say({"user": name}, f"user {name} deleted", json)


@app.command("list")
@reporting
@asking_a_node
def list_users(endpoint: Endpoint, json: JsonOption = False) -> None:
    """List users with their tags."""
    with asking(endpoint) as asker:
        pages = asker.pages(asker.stub.ListUsers, pb.ListUsersRequest())
        users = [user_form(user) for page in pages for user in page.users]
    if json:
        print_json({"users": users})
        return
    rows = [
        (user["name"], "password" if user["password"] else "certificate", " ".join(user["tags"]))
        for user in users
    ]
    console().print(table(("NAME", "LOGIN", "TAGS"), rows))


@app.command("set-limits")
@reporting
@asking_a_node
def set_user_limits(
    endpoint: Endpoint,
    name: UserArgument,
    max_connections: MaxConnections = None,
    max_channels: MaxChannels = None,
    json: JsonOption = False,
) -> None:
    """Limit what a user may have; limits that are not named end."""
    values = {"max-connections": max_connections, "max-channels": max_channels}
    set_limits(endpoint, pb.Limits(user=name), values, json)


@app.command("limits")
@reporting
@asking_a_node
def list_user_limits(endpoint: Endpoint, json: JsonOption = False) -> None:
    """List the limits of users."""
    list_limits(endpoint, "user", ("max-connections", "max-channels"), json)


@app.command("change-password")
@reporting
@asking_a_node
def change_password(
    endpoint: Endpoint,
    name: UserArgument,
    password: PasswordOption = None,
    password_stdin: PasswordStdinOption = False,
    json: JsonOption = False,
) -> None:
    """Give a user another password; its open connections stay."""
    secret = read_password(password, password_stdin, twice=True)
    with asking(endpoint) as asker:
        request = pb.ChangePasswordRequest(name=name, password=secret)
        asker.ask(asker.stub.ChangePassword, request)
    say({"user": name}, f"user {name} has another password", json)


@app.command("authenticate")
@reporting
@asking_a_node
def authenticate(
    endpoint: Endpoint,
    name: UserArgument,
    password: PasswordOption = None,
    password_stdin: PasswordStdinOption = False,
    json: JsonOption = False,
) -> None:
    """Find out whether a password is right; exit code 1 if it is not."""
    secret = read_password(password, password_stdin, twice=False)
    with asking(endpoint) as asker:
        request = pb.AuthenticateUserRequest(name=name, password=secret)
        reply = asker.ask(asker.stub.AuthenticateUser, request)
    if not reply.authenticated:
        raise CommandError(f"there is no user '{name}' with that password")
    say({"user": name, "authenticated": True}, f"that is the password of user {name}", json)


@app.command("set-tags")
@reporting
@asking_a_node
def set_tags(
    endpoint: Endpoint,
    name: UserArgument,
    tags: Annotated[
        list[str] | None, typer.Argument(help="The tags; none: none.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Replace a user's tags."""
    with asking(endpoint) as asker:
        asker.ask(asker.stub.SetUserTags, pb.SetUserTagsRequest(name=name, tags=tags or ()))
    said = " ".join(tags or ()) or "none"
    say({"user": name, "tags": list(tags or ())}, f"tags of user {name}: {said}", json)
