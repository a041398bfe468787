# What the runbooks share. FEDQ says how fedq is run here; FEDQ_NODE, FEDQ_TOKEN and the others of
# `fedq --help` which node is asked: one that is not stopped, or about to be replaced.
set -eu
FEDQ=${FEDQ:-fedq}
# So many seconds for copies, clients and starts.
PATIENCE=${PATIENCE:-600}

# Says what is done next.
step() {
    echo "== $*"
}

# Runs a command until it succeeds, once a second, for PATIENCE.
again() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt "$PATIENCE" ] || return 1
        sleep 1
    done
}

# Whether a node is a member that is up.
is_up() {
    $FEDQ cluster members | grep -Eq "^$1 +up( |$)"
}
