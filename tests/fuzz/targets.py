"""All targets, by name."""

from typing import Final

from tests.fuzz import amqp_targets, node_target, other_targets, twin_targets
from tests.fuzz.target import Target

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for target in (
        *amqp_targets.TARGETS,
        *other_targets.TARGETS,
        *twin_targets.TARGETS,
        *node_target.TARGETS,
    )
}
