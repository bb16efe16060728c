# Ways out of an agent's container: each is attempted, and none may succeed.
#
# `attempt NAME <<'END'` runs a script; exit 0 means that the attack succeeded. Prints one line for each:
# `held NAME`, `OPEN NAME: output`, or `UNTRIED NAME: output` when a program for it is missing.
cd /workspace || exit 1
attempt() {
    local output status
    output=$(timeout 20 bash -c "$(cat)" </dev/null 2>&1)
    status=$?
    case $status in
        0) echo "OPEN $1: ${output:0:300}" ;;
        127 | 126) echo "UNTRIED $1: ${output:0:300}" ;;
        *) echo "held $1" ;;
    esac
}
# Python with the C library as `c`; `said(n)` ends with success when a call returned n >= 0.
export CALLS='
import ctypes, os, platform, socket, sys
c = ctypes.CDLL(None, use_errno=True)
def said(n):
    sys.exit(0 if n >= 0 else "refused: " + os.strerror(ctypes.get_errno()))
'

# --- the engine and the host
attempt "a socket of the engine" <<'END'
for s in /var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock /skep/docker.sock; do [ -e $s ] && exit 0; done
exit 1
END
attempt "sockets other than the own door" <<'END'
find / -xdev -type s 2>/dev/null | grep . ; find /skep /workspace /skills -type s | grep -v '^/skep/api.sock$'
END
attempt "files of the host through init's root" <<'END'
ls /proc/1/root/ || ls /proc/1/cwd/
END
attempt "a disk of the host" <<'END'
find /dev -type b | grep .
END
attempt "a device made in /tmp" <<'END'
mknod /tmp/disk b 254 0
END
attempt "a device made in the workspace" <<'END'
mknod /workspace/memory c 1 1
END
attempt "a file handle of the host" <<'END'
python3 -c "$CALLS
b = ctypes.create_string_buffer(b'\x08\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0')
said(c.open_by_handle_at(os.open('/etc/hostname', os.O_RDONLY), b, os.O_RDONLY))"
END
attempt "the host's process list" <<'END'
[ "$(ls -d /proc/[0-9]* | wc -l)" -gt 40 ]
END

# --- /proc and /sys
attempt "core_pattern" <<'END'
echo '|/workspace/x' > /proc/sys/kernel/core_pattern
END
attempt "modprobe path" <<'END'
echo /workspace/x > /proc/sys/kernel/modprobe
END
attempt "binfmt_misc" <<'END'
echo ':x:M::xx::/workspace/x:' > /proc/sys/fs/binfmt_misc/register
END
attempt "anything in /proc/sys" <<'END'
find /proc/sys -type f -writable 2>/dev/null | grep .
END
attempt "sysrq" <<'END'
echo h > /proc/sysrq-trigger
END
attempt "memory of the kernel" <<'END'
[ "$(head -c 16 /proc/kcore | wc -c)" -gt 0 ]
END
attempt "messages of the kernel" <<'END'
dmesg || timeout 1 head -c 1 /proc/kmsg | grep .
END
attempt "keys of others" <<'END'
grep . /proc/keys
END
attempt "timers of the host" <<'END'
head -n 1 /proc/timer_list | grep .
END
attempt "firmware" <<'END'
find /sys/firmware -type f | grep .
END
attempt "anything in /sys" <<'END'
find /sys -type f -writable 2>/dev/null | grep .
END
attempt "release_agent" <<'END'
for f in /sys/fs/cgroup/release_agent /sys/fs/cgroup/*/release_agent; do echo /workspace/x > $f && exit 0; done
exit 1
END
attempt "a cgroup of its own" <<'END'
mkdir /sys/fs/cgroup/x || mkdir /sys/fs/cgroup/memory/x
END
attempt "its own memory limit" <<'END'
echo max > /sys/fs/cgroup/memory.max || echo -1 > /sys/fs/cgroup/memory/memory.limit_in_bytes
END
attempt "its own limit of processes" <<'END'
echo max > /sys/fs/cgroup/pids.max || echo max > /sys/fs/cgroup/pids/pids.max
END
attempt "devices through the cgroup" <<'END'
echo a > /sys/fs/cgroup/devices/devices.allow
END
attempt "safety from the memory killer" <<'END'
echo -1000 > /proc/self/oom_score_adj
END

# --- mounts, namespaces, privileges
attempt "a mount" <<'END'
mkdir -p /tmp/m; mount -t tmpfs x /tmp/m
END
attempt "a mount by the bare call" <<'END'
mkdir -p /tmp/m; python3 -c "$CALLS
said(c.mount(b'x', b'/tmp/m', b'tmpfs', 0, None))"
END
attempt "a bind mount over the skills" <<'END'
python3 -c "$CALLS
said(c.mount(b'/workspace', b'/skills', None, 4096, None))"
END
attempt "a writable root" <<'END'
python3 -c "$CALLS
said(c.mount(None, b'/', None, 32, None))"
END
attempt "writable skills" <<'END'
python3 -c "$CALLS
said(c.mount(None, b'/skills', None, 32 | 4096, None))"
END
attempt "an unmount" <<'END'
python3 -c "$CALLS
said(c.umount2(b'/skills/custom', 2))"
END
attempt "a cgroup mount" <<'END'
mkdir -p /tmp/cg; mount -t cgroup -o memory x /tmp/cg || mount -t cgroup2 x /tmp/cg
END
attempt "a user namespace" <<'END'
unshare -Ur true
END
attempt "a user namespace with a mount" <<'END'
unshare -Urm mount -t tmpfs x /tmp
END
attempt "a namespace of mounts" <<'END'
unshare -m true
END
attempt "a namespace of networks" <<'END'
unshare -Urn true
END
attempt "the namespaces of the init" <<'END'
nsenter -t 1 -m -p true
END
attempt "another root" <<'END'
python3 -c "$CALLS
said(c.chroot(b'/workspace'))"
END
attempt "user root" <<'END'
python3 -c 'import os; os.setuid(0)' || python3 -c 'import os; os.setgid(0)' || su -c true
END
attempt "other groups" <<'END'
python3 -c 'import os; os.setgroups([0])'
END
attempt "setuid programs" <<'END'
find / -xdev -type f -perm /6000 2>/dev/null | grep .
END
attempt "programs with capabilities" <<'END'
python3 -c '
import os, sys
found = []
for folder, _, files in os.walk("/usr"):
    for f in files:
        try:
            if "security.capability" in os.listxattr(os.path.join(folder, f), follow_symlinks=False): found.append(f)
        except OSError: pass
print(found); sys.exit(not found)'
END
attempt "a capability" <<'END'
grep '^Cap' /proc/self/status | grep -v '0000000000000000$'
END
attempt "new privileges" <<'END'
! grep -q '^NoNewPrivs:.1$' /proc/self/status
END
attempt "no seccomp" <<'END'
! grep -q '^Seccomp:.2$' /proc/self/status
END
attempt "a kernel module" <<'END'
python3 -c "$CALLS
said(c.syscall({'x86_64': 313, 'aarch64': 273}[platform.machine()], 0, b'', 0))"
END
attempt "another kernel" <<'END'
python3 -c "$CALLS
said(c.syscall({'x86_64': 246, 'aarch64': 104}[platform.machine()], 0, 0, None, 0))"
END
attempt "bpf" <<'END'
python3 -c "$CALLS
said(c.syscall({'x86_64': 321, 'aarch64': 280}[platform.machine()], 0, ctypes.create_string_buffer(b'\x01\0\0\0\x04\0\0\0\x04\0\0\0\x01\0\0\0', 72), 72))"
END
attempt "performance counters" <<'END'
python3 -c "$CALLS
said(c.syscall({'x86_64': 298, 'aarch64': 241}[platform.machine()], ctypes.create_string_buffer(b'\0\0\0\0\x80', 128), -1, 0, -1, 0))"
END
attempt "keyrings" <<'END'
python3 -c "$CALLS
said(c.syscall({'x86_64': 250, 'aarch64': 219}[platform.machine()], 0, -4, 1))"
END
attempt "the clock" <<'END'
date -s 2030-01-01
END
attempt "the host's name" <<'END'
python3 -c 'import socket; socket.sethostname("x")'
END
attempt "a reboot" <<'END'
python3 -c "$CALLS
said(c.reboot(0))"
END
attempt "swap" <<'END'
python3 -c "$CALLS
said(c.swapoff(b'/workspace/x') if os.path.exists('/workspace/x') else c.swapon(b'/etc/hostname', 0))"
END
attempt "a raw socket" <<'END'
python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'
END
attempt "a packet socket" <<'END'
python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'
END
attempt "any network but its own loopback" <<'END'
ls /sys/class/net | grep -v '^lo$' | grep -Ev '^(tunl|gre|gretap|erspan|ip_vti|ip6|sit|ip6tnl|ip6gre)' | grep .
END
attempt "another network" <<'END'
python3 -c 'import socket; socket.create_connection(("169.254.169.254", 80), 2)' ||
python3 -c 'import socket; socket.create_connection(("172.17.0.1", 22), 2)' ||
python3 -c 'import socket; socket.create_connection(("8.8.8.8", 53), 2)'
END

# --- the init
attempt "tracing the init" <<'END'
python3 -c "$CALLS
said(c.ptrace(16, 1, None, None))"
END
attempt "the init's environment, memory, files" <<'END'
cat /proc/1/environ || head -c 1 /proc/1/mem || ls /proc/1/fd/ || cat /proc/1/maps | grep .
END
attempt "the init's memory killer score" <<'END'
echo 1000 > /proc/1/oom_score_adj
END
attempt "the end of the init" <<'END'
kill -9 1; kill -TERM 1; kill -SEGV 1; sleep 0.3; ! kill -0 $PPID
END
attempt "the init's descriptors" <<'END'
python3 -c "$CALLS
p = os.pidfd_open(1)
said(c.syscall(438, p, 3, 0))"
END

# --- what is mounted read-only
attempt "files of the system" <<'END'
touch /etc/x || touch /usr/bin/x || touch /x || touch /root/x || touch /var/x
END
attempt "the users" <<'END'
echo 'x::0:0::/:/bin/sh' >> /etc/passwd || echo 'x::0:' >> /etc/group || rm -f /etc/passwd
END
attempt "names of hosts" <<'END'
echo '1.2.3.4 x' >> /etc/hosts || echo 'nameserver 1.2.3.4' >> /etc/resolv.conf || echo x > /etc/hostname
END
attempt "the soul" <<'END'
echo x >> /soul.md || rm -f /soul.md || mv /soul.md /tmp/ || chmod u+w /soul.md
END
attempt "its door" <<'END'
rm -f /skep/api.sock || touch /skep/x || echo x > /skep/prompt.md || cp /bin/true /skep/init || mv /skep/init /tmp/
END
attempt "the view" <<'END'
touch /skills/x || ln -sfn /workspace /skills/basic-tools || rm -f /skills/basic-tools || mkdir /skills/.v/x
END
attempt "the view through custom" <<'END'
touch /skills/custom/../x || mv /skills/custom/../basic-tools /tmp/ || rmdir /skills/custom/../custom
END
attempt "custom put aside" <<'END'
mv /skills/custom /skills/other || mv /skills/custom /workspace/
END
attempt "a stored file written" <<'END'
f=/skills/basic-tools/manifest.json; test -r $f || exit 0
echo x >> $f || chmod u+w $f || truncate -s 0 $f || chown $(id -u) $f || touch $f || rm -f $f || mv $f /tmp/
END
attempt "a stored file written through a descriptor" <<'END'
exec 3< /skills/basic-tools/manifest.json; echo x > /proc/self/fd/3
END
attempt "a stored file linked" <<'END'
f=/skills/basic-tools/manifest.json
for to in /workspace/l /tmp/l /skills/custom/l; do ln $f $to && exit 0; done
exec 3< $f; python3 -c 'import os; os.link("/proc/self/fd/3", "/skills/custom/l", follow_symlinks=True)'
END
attempt "an attribute of a stored file" <<'END'
python3 -c 'import os; os.setxattr("/skills/basic-tools/manifest.json", "user.x", b"x")'
END
attempt "a stored folder" <<'END'
touch /skills/basic-tools/x || mkdir /skills/basic-tools/scripts/x || chmod 777 /skills/basic-tools/
END
attempt "other versions and skills of the store" <<'END'
ls /skills/.v/ | grep -v '^basic-tools@' | grep . ; ls -d /skills/.v/../../.skep
END
attempt "another agent's things" <<'END'
ls -d /workspace/../agents /skep/../../good /skep/../.skep /skills/../good
END
attempt "a control that must be open" <<'END'
echo it works
END
echo "--- all attempted"
