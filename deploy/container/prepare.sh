#!/bin/sh
# Makes what deploy/compose.yaml mounts as secrets, once: certificates of three nodes, and passwords
# that nobody chose. From the root of the repository; FEDQ says how fedq is run here, by default
# inside the image. Nothing that exists is overwritten.
set -eu
cd "$(dirname "$0")/.."
umask 077
mkdir -p secrets
FEDQ=${FEDQ:-docker run --rm --user $(id -u):$(id -g) --volume $PWD/secrets:/run/secrets --workdir /run fedq:0.1}
case $FEDQ in docker*) DIR=secrets ;; *) DIR=$PWD/secrets ;; esac

[ -e secrets/ca.pem ] || $FEDQ certs init --dir "$DIR"
for node in n1 n2 n3; do
    [ -e secrets/$node.pem ] || $FEDQ certs node $node $node localhost 127.0.0.1 --dir "$DIR"
done
for user in admin grafana; do
    [ -e secrets/$user ] || head -c 18 /dev/urandom | base64 | tr '+/' '-_' >secrets/$user
done
# Compose mounts the files as they are, and the user of the image reads them. On this machine the
# directory keeps others out.
chmod 0700 secrets
chmod 0444 secrets/ca.pem secrets/n?.pem secrets/n?.key secrets/admin secrets/grafana
echo "deploy/secrets has certificates, and the passwords of admin and of Grafana's admin"
