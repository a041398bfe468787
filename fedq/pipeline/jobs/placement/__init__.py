"""`fedq pipeline placement`: which node should lead what, by who publishes and consumes where."""
