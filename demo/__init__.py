"""A demonstration one can watch: three nodes, stock clients, kill -9, and a verdict.

`python -m demo` (or `make demo`) starts everything; `records` is what the clients write down,
`verdict` what follows from it, `publisher` and the consumers are ordinary programs.
"""
