"""The node among the others: joining, leading, handing over, proposing to the map."""
