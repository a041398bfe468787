"""Messages that nobody has given back, as interval lists: what came in together stays together."""
