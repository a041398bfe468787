"""YAML text as plain values that remember their lines.

In: the text of a file. Out: the values and, for each key like `amqp.listen[0].port`, its line
(from 1). Invariants: no key is given twice, no anchors or aliases (they hide where a value comes
from, and can grow without bound), nothing is constructed but text, numbers, booleans and null.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from fedq.shell.config.values import ConfigError

FILE_BYTES_MAX: Final = 1024 * 1024
_DEPTH_MAX: Final = 16

Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]


def key_text(path: tuple[str | int, ...]) -> str:
    """A path as people write it: `amqp.listen[0].port`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def read(file: Path) -> tuple[dict[str, Value], Mapping[str, int]]:
    """(values, line of each key) of a YAML file; raises `ConfigError`."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"larger than {FILE_BYTES_MAX} bytes; is it the right file?", file=file)
    reader = _Reader(file)
    try:
        text = data.decode("utf-8")
        root = reader.compose(text)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("not UTF-8 text; save it as UTF-8", file=file, line=line) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 0 if mark is None else mark.line + 1
        problem = error.problem or error.context
        raise ConfigError(f"not valid YAML: {problem}", file=file, line=line) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"not valid YAML: {error}", file=file) from error
    if root is None:
        return {}, {}
    if not isinstance(root, MappingNode):
        raise ConfigError("must hold keys, such as `node: n1`", file=file, line=1)
    values = reader.convert(root, ())
    assert isinstance(values, dict)
    return values, reader.lines


#: What is below is secret: errors do not show it.
USERS_KEY: Final = "users"


class _Reader:
    """Turns one document into values, noting lines."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._loader = yaml.SafeLoader("")
        self.lines: dict[str, int] = {}

    def compose(self, text: str) -> Node | None:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = 0 if event.start_mark is None else event.start_mark.line + 1
                raise ConfigError(
                    "an alias (*…) hides where a value comes from; write the value out, or put it "
                    "in quotes if it is text",
                    file=self._file,
                    line=line,
                )
        root: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
        return root

    def convert(self, node: Node, path: tuple[str | int, ...]) -> Value:
        line = node.start_mark.line + 1
        self.lines.setdefault(key_text(path), line)
        if len(path) > _DEPTH_MAX:
            raise ConfigError("nested too deeply", file=self._file, line=line)
        if isinstance(node, MappingNode):
            return self._convert_mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.convert(item, (*path, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        try:
            value = self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            shown = "this" if path[:1] == (USERS_KEY,) else repr(node.value)
            raise ConfigError(
                f"{shown} cannot be understood; put it in quotes if it is text",
                key=key_text(path),
                file=self._file,
                line=line,
            ) from error
        if value is None or isinstance(value, str | int | float):
            return value
        # Dates and the like: the operator meant the text.
        return str(node.value)

    def _convert_mapping(self, node: MappingNode, path: tuple[str | int, ...]) -> Value:
        values: dict[str, Value] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                raise ConfigError("a key must be text", file=self._file, line=line)
            key = str(key_node.value)
            here = key_text((*path, key))
            if key in values:
                raise ConfigError(
                    f"given twice (first in line {self.lines[here]}); remove one",
                    key=here,
                    file=self._file,
                    line=line,
                )
            self.lines[here] = line
            values[key] = self.convert(value_node, (*path, key))
        return values
