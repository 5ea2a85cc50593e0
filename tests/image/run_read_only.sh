#!/bin/sh
# run_read_only.sh ROOT TLS COMMAND...: as a kubelet does with readOnlyRootFilesystem and runAsUser 65532.
# For `unshare --mount`: every mount goes with the process.
set -eu
root=$1 tls=$2
shift 2
mount --bind "$root" "$root"
mount --bind /proc "$root/proc"
mount -t tmpfs tmpfs "$root/mnt"
cp "$tls"/* "$root/mnt/"
chmod 0444 "$root"/mnt/*
mount -o remount,bind,ro "$root"
exec chroot --userspec=65532:65532 "$root" /usr/bin/env --ignore-environment "$@"
