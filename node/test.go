package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// options are what a test is told. Its processes hand them on as flags.
type options struct {
	berth, tools, image string
	dir                 string // for data and logs; made and removed by test
	devices, nodes      int
	story, chart        string
	lives               int
	seed                uint64
	keep                bool
}

func (o *options) flags(f *flag.FlagSet) {
	f.StringVar(&o.berth, "berth", "bin/berth", "the binary")
	f.StringVar(&o.tools, "tools", "bin/node", "folder with kubelet, containerd, containerd-shim-runc-v2, ctr, runc and the CNI plugins bridge, host-local and loopback")
	f.StringVar(&o.image, "image", "", "the scheduler's image, as made by make image IMAGE="+schedulerImage)
	f.StringVar(&o.dir, "dir", "", "folder for data and logs (default: a new one, removed if nothing is found)")
	f.IntVar(&o.devices, "devices", 4, "devices of the real node")
	f.IntVar(&o.nodes, "nodes", 3, "simulated nodes beside it")
	f.StringVar(&o.story, "story", "faults", "what is played: faults, one after the other; lives of pods while the plugin is killed at random moments; or the chart, installed, upgraded and removed with Helm")
	f.IntVar(&o.lives, "lives", 1000, "of pods, in the story of that name")
	f.StringVar(&o.chart, "chart", "deploy/chart", "folder of the chart")
	f.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "of the lives and of the moments; the moments are never quite the same")
	f.BoolVar(&o.keep, "keep", false, "keep the folder in any case")
}

// args are the flags again.
func (o *options) args() []string {
	return []string{
		"-berth", o.berth, "-tools", o.tools, "-image", o.image, "-dir", o.dir, "-devices", fmt.Sprint(o.devices), "-nodes", fmt.Sprint(o.nodes),
		"-story", o.story, "-lives", fmt.Sprint(o.lives), "-chart", o.chart, "-seed", fmt.Sprint(o.seed),
	}
}

func parse(role string, args []string) options {
	var o options
	f := flag.NewFlagSet(role, flag.ExitOnError)
	o.flags(f)
	f.Parse(args)
	for _, path := range []*string{&o.berth, &o.tools, &o.image, &o.chart, &o.dir} {
		if abs, err := filepath.Abs(*path); err == nil && *path != "" {
			*path = abs
		}
	}
	return o
}

// test returns 0 if nothing was found or the machine does not allow the test, 1 if something was found.
func test(args []string) int {
	o := parse("test", args)
	if stories[o.story] == nil {
		fmt.Fprintf(os.Stderr, "error: -story %q: choose %s\n", o.story, strings.Join(slices.Sorted(maps.Keys(stories)), ", "))
		return 2
	}
	if skipped(append(lacks(), o.absent()...)) {
		return 0
	}
	if err := o.run(); err != nil {
		fmt.Fprintf(os.Stderr, "FAIL test-node: %v; seed %d; logs: %s\n", err, o.seed, o.dir)
		return 1
	}
	fmt.Printf("PASS test-node; seed %d\n", o.seed)
	return 0
}

// check says what the machine does not allow, before anything is built for it.
func check([]string) int {
	if skipped(lacks()) {
		return 1
	}
	return 0
}

func skipped(missing []string) bool {
	for _, what := range missing {
		fmt.Printf("SKIP test-node: %s\n", what)
	}
	return len(missing) > 0
}

// lacks names what this machine does not allow.
func lacks() []string {
	if os.Geteuid() != 0 {
		return []string{"it needs root, for namespaces and mounts"}
	}
	var out []string
	probe := exec.Command("/proc/self/exe", "pause")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: stageFlags}
	if err := probe.Start(); err != nil {
		out = append(out, fmt.Sprintf("the kernel makes no namespaces: %v", err))
	} else {
		probe.Process.Kill()
		probe.Wait()
	}
	name := groupName()
	if err := makeGroup(name); err != nil {
		out = append(out, fmt.Sprintf("control groups cannot be made: %v", err))
	}
	removeGroup(name)
	if _, err := exec.LookPath("mount"); err != nil {
		out = append(out, "no mount, which the kubelet calls")
	}
	return out
}

// absent names the programs that are not there.
func (o *options) absent() []string {
	var out []string
	tools := []string{"kubelet", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "bridge", "host-local", "loopback"}
	if o.story == "chart" {
		tools = append(tools, "helm")
	}
	for _, name := range tools {
		if _, err := os.Stat(filepath.Join(o.tools, name)); err != nil {
			out = append(out, "no "+name+" in "+o.tools)
		}
	}
	for _, file := range []string{o.berth, o.image} {
		if _, err := os.Stat(file); err != nil {
			out = append(out, err.Error())
		}
	}
	return out
}

// groupName is the node's control group: one of its own for each test.
func groupName() string { return fmt.Sprintf("berth-node-%d", os.Getpid()) }

// sysctls are what a kubelet changes for the whole machine.
var sysctls = []string{"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"}

// run makes the folder, the control group and the namespaces, and leaves the machine as it was.
func (o *options) run() (err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "berth-node-"); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	for _, s := range sysctls {
		file := filepath.Join("/proc/sys", s)
		was, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		defer func() {
			if is, _ := os.ReadFile(file); string(is) != string(was) {
				os.WriteFile(file, was, 0o644)
			}
		}()
	}
	group := groupName()
	if err := makeGroup(group); err != nil {
		return err
	}
	defer func() {
		for range 50 { // the last processes leave their groups a moment after they ended
			if e := removeGroup(group); e == nil {
				return
			} else if !errors.Is(e, unix.EBUSY) {
				fmt.Fprintln(os.Stderr, "control groups:", e)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		fmt.Fprintf(os.Stderr, "control group %s is left behind\n", group)
	}()
	cmd := exec.Command("/proc/self/exe", append([]string{"stage"}, o.args()...)...)
	cmd.Env = append(os.Environ(), groupVariable+"="+group)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: stageFlags, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig counts from the end of the thread
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		<-interrupted
		cmd.Process.Kill() // process 1: all end with it
	}()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.Join(cmd.Args[1:], " "))
	}
	if o.keep {
		return nil
	}
	return os.RemoveAll(o.dir)
}

// groupVariable hands on the name of the control group.
const groupVariable = "BERTH_NODE_GROUP"

// stage is process 1 of the namespaces that hold the cluster: it prepares them, starts the test, and reaps.
func stage(args []string) int {
	err := ownMounts()
	if err == nil {
		err = loopback()
	}
	if err == nil {
		err = os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		return 1
	}
	argv := append([]string{"/proc/self/exe", "play"}, args...)
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		return 1
	}
	return reap(pid, func(int) {})
}
