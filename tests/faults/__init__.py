"""Real faults on real processes: power cuts, kills, pauses, old directories and flipped bits.

`make faults` plays hundreds of them on clusters of three nodes under load, and judges what stock
clients wrote down: nothing that was confirmed is lost, and nothing is repeated without a mark.
"""
