"""`fedq pipeline traffic`: what goes where, minute by minute."""
