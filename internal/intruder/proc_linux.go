package intruder

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// States and flags as the kernel's tables print them.
const (
	tcpListen = "0A"
	connected = "01"
	accepting = 1 << 16 // __SO_ACCEPTCONN, in the flags of /proc/net/unix
)

// Sockets are those of a process that others can send to: listening ones, and those that take datagrams from anybody.
// A table of the kernel that this package does not know is reported whole, so that a new kind of socket is a question
// and not a gap.
func Sockets(pid int) ([]Socket, error) {
	proc := fmt.Sprintf("/proc/%d", pid)
	owned, err := inodes(proc + "/fd")
	if err != nil {
		return nil, err
	}
	cwd, err := os.Readlink(proc + "/cwd")
	if err != nil {
		return nil, err
	}
	tables, err := os.ReadDir(proc + "/net")
	if err != nil {
		return nil, err
	}
	var found []Socket
	for _, table := range tables {
		if !table.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(proc, "net", table.Name()))
		if err != nil {
			continue // statistics that only root may read, and the like; sockets are in tables for everybody
		}
		rows := strings.Split(string(text), "\n")
		inode := column(rows[0])
		for _, row := range rows[1:] {
			s, ok, err := reachable(table.Name(), row, inode, owned, cwd)
			if err != nil {
				return nil, fmt.Errorf("%s/net/%s: %q: %w", proc, table.Name(), row, err)
			}
			if ok {
				found = append(found, s)
			}
		}
	}
	return found, nil
}

// inodes are the numbers of all sockets among a process's descriptors.
func inodes(fds string) (map[string]bool, error) {
	entries, err := os.ReadDir(fds)
	if err != nil {
		return nil, err
	}
	owned := map[string]bool{}
	for _, fd := range entries {
		link, _ := os.Readlink(filepath.Join(fds, fd.Name())) // it may be closed by now
		if s, ok := strings.CutPrefix(link, "socket:["); ok {
			owned[strings.TrimSuffix(s, "]")] = true
		}
	}
	return owned, nil
}

// reachable reads one row of a table. ok is false for sockets of others, and for those that nobody can send to.
func reachable(table, row string, inode int, owned map[string]bool, cwd string) (s Socket, ok bool, err error) {
	s.Network = table
	f := strings.Fields(row)
	switch table {
	case "tcp", "tcp6":
		if len(f) < 10 || f[3] != tcpListen || !owned[f[9]] {
			return s, false, nil
		}
		s.Address, err = address(f[1])
	case "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "icmp", "icmp6":
		if len(f) < 10 || f[3] == connected || !owned[f[9]] {
			return s, false, nil
		}
		s.Address, err = address(f[1])
	case "unix":
		if len(f) < 8 || !owned[f[6]] {
			return s, false, nil // no name: nobody can connect to it
		}
		return unixSocket(row, f, cwd)
	case "netlink":
		return s, false, nil // between this process and the kernel
	default:
		if inode < 0 || len(f) <= inode || !owned[f[inode]] {
			return s, false, nil
		}
		s.Address = strings.Join(f, " ")
	}
	return s, err == nil, err
}

// column is where a table without a case of its own names the inode; -1: it lists no sockets.
func column(header string) int {
	for i, name := range strings.Fields(header) {
		if strings.EqualFold(name, "inode") {
			return i
		}
	}
	return -1
}

// unixSocket reads "Num RefCount Protocol Flags Type St Inode Path". The path is the rest of the line.
func unixSocket(row string, f []string, cwd string) (s Socket, ok bool, err error) {
	flags, err := strconv.ParseUint(f[3], 16, 32)
	if err != nil {
		return s, false, err
	}
	kind, err := strconv.ParseUint(f[4], 16, 16)
	if err != nil {
		return s, false, err
	}
	if kind != unix.SOCK_DGRAM && flags&accepting == 0 {
		return s, false, nil
	}
	_, path, _ := strings.Cut(row, " "+f[6]+" ")
	if !strings.HasPrefix(path, "@") && !filepath.IsAbs(path) {
		path = filepath.Join(cwd, path)
	}
	return Socket{Network: "unix", Address: path, Type: int(kind)}, true, nil
}

// address reads "0100007F:1F90": words of an address in the machine's byte order, and a port.
func address(text string) (string, error) {
	host, port, ok := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	if !ok || err != nil || len(b)%4 != 0 {
		return "", fmt.Errorf("address %q", text)
	}
	for i := 0; i < len(b); i += 4 {
		binary.BigEndian.PutUint32(b[i:], binary.NativeEndian.Uint32(b[i:]))
	}
	a, ok := netip.AddrFromSlice(b)
	p, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return "", fmt.Errorf("address %q", text)
	}
	return netip.AddrPortFrom(a, uint16(p)).String(), nil
}
