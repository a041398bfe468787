#!/bin/sh
# Replaces a node that is gone for good: replace.sh OLD NEW START...
# START starts the new one, with `join` and an empty data directory (docs/OPERATING.md, "A node is
# replaced"); it may have the old one's name.
. "$(dirname "$0")/common.sh"
old=$1
shift
step "forget $old: its copies are made elsewhere"
again $FEDQ cluster forget "$old"
exec "$(dirname "$0")/grow.sh" "$@"
