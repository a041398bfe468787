"""What a cluster of any size would take, by the costs that were measured (docs/SCALE.md)."""
