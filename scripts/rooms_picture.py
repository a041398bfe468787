"""The rooms of a node, which of them uses which, and a message's way: from the code's own imports.

The order is that of the contract in `pyproject.toml`. A step of the way is drawn in the room of its
function; one that is not in the code any more is an error, not a line that has become false.
"""

import ast
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from draw_pictures import Picture

ROOT: Final = Path(__file__).resolve().parent.parent
NODE: Final = ROOT / "fedq" / "node"
CONTRACT: Final = "The rooms of a node"

#: (module, class and function, what happens): from a client's publish to a client's delivery.
WAY: Final = (
    ("clients/client_flow.py", "ClientFlow.on_bytes", "bytes become commands"),
    (
        "publishing/publish_flow.py",
        "PublishFlow.on_publishes",
        "checked, routed, piled up",
    ),
    ("publishing/outlets.py", "Outlets.deliver_piles", "numbered for confirms"),
    ("publishing/admission.py", "Admission.publish", "into the fragment, as one record"),
    ("node.py", "Node.end_turn", "the marks are worked off"),
    ("consuming/consume_flow.py", "ConsumeFlow.dispatch", "dealt to consumers here"),
    ("consuming/handing.py", "hand_to_nodes", "and to other nodes"),
    ("copies/fragment_flow.py", "FragmentFlow.finish", "to the journal and the backups"),
    ("copies/fragment_flow.py", "FragmentFlow.say_committed", "once it is on disk and copied"),
    ("publishing/confirming.py", "on_publishes_done", "the confirm groups close"),
    ("records/answers.py", "Answers.flush_confirms", "basic.ack"),
    ("publishing/draining.py", "drain_clients", "all bytes of a client in one write"),
)

BOX: Final = 310
ROW: Final = 30
CELL: Final = 26
LEFT, TOP = 20, 118


def _rows() -> list[list[str]]:
    """The rooms from the top down; those of a row do not know each other."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["name"] == CONTRACT)
    return [[name.strip() for name in layer.split("|")] for layer in layers]


def _modules(room: str) -> list[Path]:
    folder = NODE / room
    return sorted(folder.glob("*.py")) if folder.is_dir() else [NODE / f"{room}.py"]


def _uses(room: str) -> dict[str, None]:
    """The other rooms that modules of a room import."""
    found: dict[str, None] = {}
    for path in _modules(room):
        for statement in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(statement, ast.ImportFrom) and statement.module:
                parts = statement.module.split(".")
                if parts[:2] == ["fedq", "node"] and len(parts) > 2 and parts[2] != room:
                    found[parts[2]] = None
    return found


def _has(path: Path, name: str) -> bool:
    """Whether the module has a function, or a class with a method, of this name."""
    body: list[ast.stmt] = ast.parse(path.read_text("utf-8")).body
    for part in name.split("."):
        found = [
            each for each in body
            if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name == part
        ]  # fmt: skip
        if not found:
            return False
        body = found[0].body
    return True


def _way() -> dict[str, list[int]]:
    """The numbers of the steps in each room."""
    found: dict[str, list[int]] = {}
    for number, (module, name, _) in enumerate(WAY, 1):
        if not _has(NODE / module, name):
            raise SystemExit(f"fedq/node/{module}: no {name}; mend WAY in {Path(__file__).name}")
        found.setdefault(module.split("/")[0].removesuffix(".py"), []).append(number)
    return found


def _draw_room(picture: "Picture", room: str, y: int, steps: list[int], color: str) -> None:
    count = sum(path.name != "__init__.py" for path in _modules(room))
    folder = (NODE / room).is_dir()
    picture.box(LEFT, y, BOX, ROW - 4, color)
    picture.text(LEFT + 10, y + 18, room if folder else f"{room}.py", anchor="start", bold=True)
    if folder:
        picture.text(LEFT + BOX - 10, y + 18, f"{count} modules", anchor="end")
    if steps:
        picture.text(
            LEFT + 112, y + 18, ", ".join(map(str, steps)), anchor="start", color=picture.line
        )


def draw_rooms(picture: "Picture", colors: tuple[str, str]) -> None:
    """Draws into an empty picture; `colors`: of rows in turn."""
    rows, way = _rows(), _way()
    rooms = [room for row in rows for room in row]
    columns = {room: LEFT + BOX + 22 + CELL * number for number, room in enumerate(rooms)}
    picture.text(LEFT, 24, "The rooms of a node, from the top down", anchor="start", bold=True)
    picture.text(
        LEFT, 44, "A dot: the room of this row imports the room of this column.", anchor="start"
    )
    picture.text(LEFT, 62, "None is left of its own place: imports go down.", anchor="start")
    y = TOP
    for index, row in enumerate(rows):
        for room in row:
            _draw_room(picture, room, y, way.get(room, []), colors[index % 2])
            picture.upright(columns[room] + 4, TOP - 8, room)
            picture.dot(columns[room], y + ROW // 2 - 2, 3, is_filled=False)
            for used in _uses(room):
                picture.dot(columns[used], y + ROW // 2 - 2, 6, is_filled=True)
            y += ROW
    y += 24
    picture.text(LEFT, y, "A message's way", anchor="start", bold=True)
    for number, (module, name, what) in enumerate(WAY, 1):
        y += 20
        picture.text(LEFT + 22, y, str(number), anchor="end", color=picture.line)
        picture.text(LEFT + 32, y, what, anchor="start")
        picture.text(LEFT + 270, y, f"{module}: {name}", anchor="start")


def size() -> tuple[int, int]:
    """Width and height of the picture."""
    count = sum(len(row) for row in _rows())
    return LEFT + BOX + 40 + CELL * count, TOP + ROW * count + 24 + 20 * len(WAY) + 20
