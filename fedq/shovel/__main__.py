"""`python -m fedq.shovel` is the process that moves messages for a node, which starts it.

In: lines of JSON on stdin, each with all shovels that are to run. Out: lines of JSON on stdout,
each with how all of them fare, whenever that has changed. It ends when stdin does: no shovel
outlives its node, however that ends.
"""

from fedq.shovel.process import main

if __name__ == "__main__":
    main()
