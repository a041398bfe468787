#!/bin/sh
# Adds a node: grow.sh NODE START...
# START is the command that starts it, on a machine where its file and certificates are, with `join`
# (docs/OPERATING.md, "A node is added"): ssh n4 systemctl start fedq
. "$(dirname "$0")/common.sh"
node=$1
shift
step "start $node"
"$@"
step "wait until $node is a member"
again is_up "$node"
step "wait until all is well"
$FEDQ cluster status --wait "$PATIENCE"
step "even out who leads: once $node has copies, it leads its share"
$FEDQ cluster rebalance
