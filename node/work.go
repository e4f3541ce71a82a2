package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// deviceFolder is where a container finds the files of its devices: the plugin mounts them there.
const deviceFolder = "/dev/berth-test"

// deviceVariable names a container's devices, as NVIDIA's plugin does.
const deviceVariable = "NVIDIA_VISIBLE_DEVICES"

// exitTwice is how a program ends that finds one of its devices in use by another.
const exitTwice = 86

// work holds the devices that its container was given for a while. Each is a file, the same for all containers that were given
// the device, and is locked for as long as the program runs: a device that was given twice is found by the second.
func work(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: work DURATION")
		return 2
	}
	d, err := time.ParseDuration(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	devices := strings.Split(os.Getenv(deviceVariable), ",")
	for _, id := range devices {
		f, err := os.Open(filepath.Join(deviceFolder, id))
		if err == nil {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // held until the process ends
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "device %q: %v\n", id, err)
			return exitTwice
		}
	}
	fmt.Println("working on", devices)
	select {
	case <-end:
		return 143
	case <-time.After(d):
		return 0
	}
}

// pause is process 1 of a pod: it holds the pod's namespaces and reaps.
func pause([]string) int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return 0
		}
		for {
			if pid, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 {
				break
			}
		}
	}
	return 0
}
