package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Addresses inside the namespaces; nobody outside sees them. The whole of the services' range is local, so that the
// services' addresses can be listened on.
var (
	serviceRange = net.IPNet{IP: net.IPv4(10, 96, 0, 1), Mask: net.CIDRMask(16, 32)} // as the embedded API server has it
	nodeAddress  = net.IPNet{IP: net.IPv4(10, 230, 0, 1), Mask: net.CIDRMask(32, 32)}
)

const podRange = "10.231.0.0/16"

// stageFlags and machineFlags are the namespaces of the two: the node shares the cluster's network.
const (
	stageFlags   = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	machineFlags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
)

// ownMounts keeps what is mounted from here on out of the namespace that this one was made from.
func ownMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// loopback raises the namespace's only interface and gives it the addresses.
func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if err := raise(s, "lo"); err != nil {
		return err
	}
	for i, a := range []net.IPNet{serviceRange, nodeAddress} {
		name := fmt.Sprintf("lo:%d", i+1)
		if err := address(s, name, a); err != nil {
			return fmt.Errorf("%s %v: %w", name, a, err)
		}
	}
	return nil
}

func raise(socket int, name string) error {
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, r)
}

func address(socket int, name string, a net.IPNet) error {
	for _, set := range []struct {
		request uint
		value   []byte
	}{{unix.SIOCSIFADDR, a.IP.To4()}, {unix.SIOCSIFNETMASK, a.Mask}} {
		r, err := unix.NewIfreq(name)
		if err == nil {
			err = r.SetInet4Addr(set.value)
		}
		if err == nil {
			err = unix.IoctlIfreq(socket, set.request, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reap waits for children, and for orphans that the kernel gives to process 1, until the one is over. It calls ended for
// each, and returns the exit code of the one.
func reap(one int, ended func(pid int)) int {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1
		case pid == one && status.Signaled():
			return 128 + int(status.Signal())
		case pid == one:
			return status.ExitStatus()
		default:
			ended(pid)
		}
	}
}

// spawn starts a program with its output in a file.
func spawn(log string, args ...string) (pid int, err error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	return syscall.ForkExec(args[0], args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, out.Fd(), out.Fd()}})
}

// cgroups is where the node's processes are counted: a folder in each hierarchy of version 1, or one of version 2.
const cgroups = "/sys/fs/cgroup"

// unified says whether the machine has version 2 alone.
func unified() bool {
	_, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers"))
	return err == nil
}

// hierarchies are the folders below which groups are made. Of version 1 that is one for each controller, and one for systemd,
// which a kubelet wants as well; names that are links stand for another.
func hierarchies() ([]string, error) {
	if unified() {
		return []string{cgroups}, nil
	}
	entries, err := os.ReadDir(cgroups)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(cgroups, e.Name(), "tasks")); err == nil && e.IsDir() {
			out = append(out, filepath.Join(cgroups, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("none are mounted at %s", cgroups)
	}
	return out, nil
}

// makeGroup makes a control group of that name in every hierarchy.
func makeGroup(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		folder := filepath.Join(h, name)
		if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		for _, file := range []string{"cpuset.mems", "cpuset.cpus"} { // empty in a new group of version 1, which then takes nobody
			text, err := os.ReadFile(filepath.Join(h, file))
			if err != nil || unified() {
				continue
			}
			if err := os.WriteFile(filepath.Join(folder, file), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeGroup removes the control group and those below it from all hierarchies, also those in which a runtime made it. Their
// processes have ended.
func removeGroup(name string) error {
	all, err := filepath.Glob(filepath.Join(cgroups, "*", name))
	if err != nil {
		return err
	}
	var failed error
	for _, folder := range append(all, filepath.Join(cgroups, name)) {
		failed = errors.Join(failed, removeFolders(folder))
	}
	return failed
}

func removeFolders(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeFolders(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(folder)
}
