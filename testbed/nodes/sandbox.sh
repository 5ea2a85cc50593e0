#!/bin/bash
# sandbox.sh FOLDER NAME: pid 1 of a node. Mounts what a machine has of its own, then reaps orphans until it is killed.
set -eu
folder=$1
mount --make-rprivate /
hostname "$2"
umount --recursive /sys/fs/cgroup
mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
for controller in cpu cpuacct cpuset memory devices freezer blkio pids; do
  mkdir "/sys/fs/cgroup/$controller"
  mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller"
done
# The folder of device plugins is fixed in the kubelet; the machine's own /var/lib stays as it is.
mkdir -p "$folder/var/upper" "$folder/var/work" "$folder/kubelet"
mount -t overlay -o "lowerdir=/var/lib,upperdir=$folder/var/upper,workdir=$folder/var/work" overlay /var/lib
mkdir -p /var/lib/kubelet
mount --bind "$folder/kubelet" /var/lib/kubelet
# In a user namespace a container gets the node's own cards, bound, and no new device nodes: they are the null device.
mkdir -p "$folder/dev/upper" "$folder/dev/work" "$folder/dev/all"
mount -t overlay -o "lowerdir=/dev,upperdir=$folder/dev/upper,workdir=$folder/dev/work" overlay "$folder/dev/all"
for mounted in $(awk '$2 ~ "^/dev/" { print $2 }' /proc/self/mounts); do
  mount --bind "$mounted" "$folder/dev/all/${mounted#/dev/}"
done
mount --rbind "$folder/dev/all" /dev
for name in nvidia0 nvidia1 nvidiactl nvidia-modeset nvidia-uvm nvidia-uvm-tools; do
  [[ -e /dev/$name ]] || mknod --mode=666 "/dev/$name" c 1 3
done
mount --make-rshared /
mount -t tmpfs tmpfs /run
# Kubelets that share it delete each other's logs.
mount -t tmpfs tmpfs /var/log
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
touch "$folder/booted"
while :; do
  sleep 1 &
  wait $! || true
done
