package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// load is processor time used so far, in seconds.
type load struct {
	at                      time.Time
	machine                 float64 // by everybody
	server, scheduler, self float64
}

// userHertz is the unit of Linux's counters.
const userHertz = 100

// loadNow reads Linux's counters; ok is false where there are none. There may be no scheduler yet.
func (c *cluster) loadNow(scheduler *process) (l load, ok bool) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return l, false
	}
	l = load{at: time.Now(), machine: busy(string(b)), server: used(c.server.cmd.Process.Pid), self: used(os.Getpid())}
	if scheduler != nil {
		l.scheduler = used(scheduler.cmd.Process.Pid)
	}
	return l, true
}

// busy adds up the first line of /proc/stat without idle time.
func busy(stat string) (sum float64) {
	line, _, _ := strings.Cut(stat, "\n")
	for i, word := range strings.Fields(line)[1:] {
		if i != 3 && i != 4 && i < 8 { // idle, and waiting for a disk; beyond, time is counted a second time
			sum += seconds(word)
		}
	}
	return sum
}

// used is the processor time of a process, 0 if it is gone.
func used(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	return seconds(fields[11]) + seconds(fields[12])
}

func seconds(ticks string) float64 {
	n, _ := strconv.ParseFloat(ticks, 64)
	return n / userHertz
}

// costs are what so many pods took of the machine's processors since before, and what was left to others: on a
// machine that others use, the first say more than rates do.
func (l load) costs(before load, pods int) []figure {
	server, scheduler := l.server-before.server, l.scheduler-before.scheduler
	others := (l.machine - before.machine) - server - scheduler - (l.self - before.self)
	return []figure{
		{figServerCPU, server},
		{figSchedulerCPU, scheduler},
		{figCPU, 1000 * (server + scheduler) / float64(max(pods, 1))},
		{figOthers, max(0, others) / l.at.Sub(before.at).Seconds()},
	}
}
