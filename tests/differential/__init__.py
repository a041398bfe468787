"""The same scripts of AMQP operations against fedq and a real RabbitMQ, frame by frame.

`script.py` is what a script is; `strategies.py` and its sisters make them; `side.py` performs one
on a broker; `compare.py` tells where two brokers differ; `decisions.py` lists where they may;
`runner.py` runs many. `python -m tests.differential --help` tells the rest.
"""
