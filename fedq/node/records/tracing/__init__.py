"""What a node notes of its messages for traces and for the firehose, until it is written."""
