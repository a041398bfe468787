"""Hostile scripts against real nodes: what a client or a stranger may send, what others notice.

Each attack is a function in a module of this folder, registered with `attack` (see `stage.py`).
While it runs, another client asks the node something every 20 ms, and its memory is watched.

    python -m tests.attacks                 # all, with the longest wait and the most memory of each
    python -m tests.attacks --only unread   # some of them, by a part of the name
"""
