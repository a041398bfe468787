#!/bin/sh
# Updates a node, or starts it again for another reason: update.sh NODE START...
# START starts it with the new release, which is on its machine. One node after the other
# (docs/OPERATING.md, "Stopping and updating nodes from afar").
. "$(dirname "$0")/common.sh"
node=$1
shift
step "may $node be stopped?"
again $FEDQ cluster upgrade-check "$node"
step "others take what $node leads, and its clients"
$FEDQ cluster drain "$node" --wait "$PATIENCE"
step "stop $node"
$FEDQ cluster stop "$node"
step "start $node"
"$@"
again is_up "$node"
step "let $node hold something again"
$FEDQ cluster undrain "$node"
step "wait until all is well"
$FEDQ cluster status --wait "$PATIENCE"
