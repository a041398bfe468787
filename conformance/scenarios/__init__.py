"""Scenarios of clients whose source packages have no tests, as their documentation tells them."""
