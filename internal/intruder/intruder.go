// Package intruder lists every socket on which a process can be reached, of whatever kind, and tries each one as
// another user of the machine. It holds no list of the sockets that a cluster has: a new one is found and must turn
// the intruder away like the others.
//
// It is not a port scanner and knows no exploits: it asks whether someone without credentials is let in at all. Tests
// of cmd/berth call it. It reads /proc, so it works on Linux alone.
package intruder

import (
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Socket is one on which a process takes connections or datagrams.
type Socket struct {
	Network string // the kernel's table: "tcp", "tcp6", "udp", "unix", "raw" and so on
	Address string // host:port; a path; "@..." for an abstract name, which no permission protects
	Type    int    // SOCK_STREAM and so on; of Unix sockets only
}

func (s Socket) String() string { return s.Network + " " + s.Address }

// Nobody is the user who tries: one that owns nothing.
const Nobody = 65534

// Rules says what is wrong with a socket before anybody tries it. owner is the user that the process runs as.
func Rules(s Socket, owner int) error {
	switch {
	case s.Network == "unix" && strings.HasPrefix(s.Address, "@"):
		return fmt.Errorf("%s is abstract: it has no owner and no mode, and every local user can open it", s)
	case s.Network == "unix":
		return guarded(s.Address, owner)
	case s.Network == "tcp" || s.Network == "tcp6":
		return onLoopback(s)
	}
	return fmt.Errorf("%s: nothing on it can be asked for credentials", s)
}

// guarded wants a socket file that its owner alone may open, in a folder that its owner alone may enter.
func guarded(path string, owner int) error {
	for _, p := range []struct {
		path string
		mode fs.FileMode
	}{{path, 0o600}, {filepath.Dir(path), 0o700}} {
		info, err := os.Lstat(p.path)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(st.Uid) != owner {
			return fmt.Errorf("%s does not belong to user %d", p.path, owner)
		}
		if info.Mode().Perm() != p.mode {
			return fmt.Errorf("%s has mode %04o, not %04o", p.path, info.Mode().Perm(), p.mode)
		}
	}
	return nil
}

func onLoopback(s Socket) error {
	at, err := netip.ParseAddrPort(s.Address)
	if err != nil {
		return err
	}
	if !at.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s can be reached from other machines", s)
	}
	return nil
}
