package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestCostsLeaveOthersWhatWeDidNotUse(t *testing.T) {
	before := load{at: time.Unix(100, 0), machine: 1000, server: 10, self: 1}
	after := load{at: time.Unix(110, 0), machine: 1020, server: 19, scheduler: 3, self: 2}
	want := []figure{{figServerCPU, 9}, {figSchedulerCPU, 3}, {figCPU, 1.2}, {figOthers, 0.7}}
	if diff := cmp.Diff(want, after.costs(before, 10000), cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Error(diff)
	}
}

func TestBusyLeavesOutIdleTime(t *testing.T) {
	// user nice system idle iowait irq softirq steal guest guest_nice
	if got := busy("cpu  100 20 30 9999 777 1 2 47 100 20\ncpu0 1 1 1\n"); got != 2 {
		t.Errorf("%v s, want 2", got)
	}
}
