"""What a message costs in counts that are the same on every machine; see `docs/TESTING.md`.

python -m tests.cost                  # count, and compare with the budget
python -m tests.cost --only fan_out   # some works, with the functions that cost most
python -m tests.cost --write          # the counts of now become the budget
"""
