#!/bin/sh
# Takes a node out that runs: shrink.sh NODE
# What it holds goes to others first, and its clients leave (docs/OPERATING.md, "The cluster is to be
# smaller").
. "$(dirname "$0")/common.sh"
node=$1
step "others take what $node holds"
$FEDQ cluster drain "$node" --wait "$PATIENCE"
step "stop $node"
$FEDQ cluster stop "$node"
step "forget $node"
again $FEDQ cluster forget "$node" --wait "$PATIENCE"
step "wait until all is well"
$FEDQ cluster status --wait "$PATIENCE"
