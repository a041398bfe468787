"""Requests about queues, exchanges, consumers and transactions, one method each."""
