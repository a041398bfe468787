"""What operators set in a real cluster map, as the admin floor sees it: policies, parameters."""

from collections.abc import Sequence

from fedq.core.ids import QueueKey
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations_parameters import ParameterKey
from fedq.wiring.cluster_map.operations_policies import Policy
from fedq.wiring.cluster_map.policy_book import PolicyBook


class SetInMap:
    """A part of an `AccessOverview`."""

    def __init__(self) -> None:
        self.map = ClusterMap()

    def policies(self, operator: bool) -> Sequence[tuple[QueueKey, Policy]]:
        table = self.map.operator_policies if operator else self.map.policies
        return sorted(table.items(), key=lambda item: item[0])

    def policies_of_exchanges(self, keys: Sequence[QueueKey]) -> Sequence[str]:
        book = PolicyBook(self.map)
        return [book.of_exchange(key).policy for key in keys[:1]]

    def parameters(self) -> Sequence[tuple[ParameterKey, str]]:
        return sorted(self.map.parameters.items())
