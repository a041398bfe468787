"""What every test run has beside pytest: an order of its own, an eye on what is left behind."""
