package shell

import (
	"cmp"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// NewFS makes the root of a container: a small Linux tree, the same for every image. It is
// cheap; the tree is shared until it is written to.
func NewFS() *FS { return vfs.New(vfs.Options{Image: image(), Limit: VolumeStorage}) }

// image is the tree that every container starts from. It never changes once made.
var image = sync.OnceValue(func() *vfs.Entry {
	var bin []vfs.Entry
	for name := range builtin() {
		bin = append(bin, vfs.Entry{Name: name, Mode: 0o755})
	}
	tmp := vfs.Dir("tmp")
	tmp.Mode = fs.ModeDir | 0o777
	root := vfs.Dir("",
		vfs.Dir("bin", bin...),
		vfs.Dir("dev", devices()...),
		vfs.Dir("etc", etc()...),
		vfs.Dir("home"), vfs.Dir("mnt"), vfs.Dir("opt"), vfs.Dir("run"), vfs.Dir("srv"), vfs.Dir("sys"),
		vfs.Dir("proc", proc()...),
		vfs.Dir("root"),
		vfs.Dir("sbin"),
		tmp,
		vfs.Dir("usr",
			vfs.Link("bin", "../bin"), vfs.Dir("sbin"), vfs.Dir("lib"),
			vfs.Dir("local", vfs.Dir("bin"), vfs.Dir("lib"), vfs.Dir("sbin")),
			vfs.Dir("share"),
		),
		vfs.Dir("var", vfs.Dir("lib"), vfs.Dir("log"), vfs.Link("run", "../run"), vfs.Dir("tmp")),
	)
	return &root
})

func devices() []vfs.Entry {
	return []vfs.Entry{
		vfs.Special("null", vfs.Null), vfs.Special("zero", vfs.Zero), vfs.Special("full", vfs.Full),
		vfs.Special("random", vfs.Random), vfs.Special("urandom", vfs.Random), vfs.Special("tty", vfs.TTY),
		vfs.Special("stdin", vfs.Stdin), vfs.Special("stdout", vfs.Stdout), vfs.Special("stderr", vfs.Stderr),
		vfs.Dir("shm"),
	}
}

func etc() []vfs.Entry {
	return []vfs.Entry{
		generated("hostname"), generated("hosts"), generated("resolv.conf"),
		vfs.Text("group", "root:x:0:\nnogroup:x:65534:\n"),
		vfs.Text("os-release", "NAME=\"Berth container\"\nID=berth\nVERSION_ID=1\nPRETTY_NAME=\"Berth simulated container\"\n"),
		vfs.Text("passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
	}
}

func proc() []vfs.Entry {
	return []vfs.Entry{
		vfs.Dir("1", generated("cmdline"), generated("comm"), generated("status")),
		vfs.Link("self", "1"),
		generated("mounts"), generated("cpuinfo"), generated("meminfo"), generated("version"),
		vfs.Text("loadavg", "0.00 0.00 0.00 1/1 1\n"),
	}
}

func generated(name string) vfs.Entry { return vfs.Entry{Name: name, Mode: 0o444, Generated: true} }

// generate makes the files whose content depends on the container.
func (c *Container) generate(name string) []byte {
	switch name {
	case "/etc/hostname":
		return []byte(c.Hostname + "\n")
	case "/etc/hosts":
		return []byte(cmp.Or(c.Hosts, "127.0.0.1\tlocalhost\n::1\tlocalhost\n"))
	case "/etc/resolv.conf":
		return []byte(c.Resolver)
	case "/proc/mounts":
		return []byte(c.mounts())
	case "/proc/cpuinfo", "/proc/meminfo", "/proc/version":
		return []byte(c.machine().describe(name))
	}
	args := []string{"init"}
	if list := c.state.list(c); len(list) > 0 && len(list[0].args) > 0 {
		args = list[0].args
	}
	switch name {
	case "/proc/1/cmdline":
		return []byte(joined(args, "\x00") + "\x00")
	case "/proc/1/comm":
		return []byte(args[0] + "\n")
	}
	return []byte("Name:\t" + args[0] + "\nState:\tS (sleeping)\nPid:\t1\nPPid:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n")
}

func (c *Container) mounts() string {
	var b strings.Builder
	b.WriteString("overlay / overlay rw 0 0\n")
	for _, m := range c.FS.Mounts() {
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		fmt.Fprintf(&b, "tmpfs %s tmpfs %s 0 0\n", m.Path, mode)
	}
	return b.String()
}

// describe makes the files of /proc that are about the machine.
func (m Machine) describe(name string) string {
	switch name {
	case "/proc/meminfo":
		return fmt.Sprintf("MemTotal:       %8d kB\nMemFree:        %8d kB\nMemAvailable:   %8d kB\n", m.MemoryKiB, m.freeKiB(), m.freeKiB())
	case "/proc/version":
		return "Linux version " + m.Kernel + " (berth) #1 SMP\n"
	}
	var b strings.Builder
	for i := range m.CPUs {
		fmt.Fprintf(&b, "processor\t: %d\nmodel name\t: Simulated CPU\n\n", i)
	}
	return b.String()
}
