"""Text from outside as a terminal may be given it: names, bodies, and words of brokers.

Who may declare a queue, publish to one, or be asked for an answer, would else have a say in what
the terminal of an operator does and shows: an escape sequence moves the cursor, writes into the
clipboard, or sets a title.
"""


def printable(text: str) -> str:
    """Text of one line, with nothing in it that a terminal would obey."""
    return text if text.isprintable() else repr(text)[1:-1]


def printable_lines(text: str) -> str:
    """Text with its line ends, and nothing else in it that a terminal would obey."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))
