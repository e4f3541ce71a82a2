package main

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestDrills starts each drill on one cluster, sees that its check fails, applies the mend that its last hint gives, and sees
// its check pass. With -short a third of the drills is drawn.
func TestDrills(t *testing.T) {
	c := startDrillCluster(t)
	names := c.drills(t)
	if len(names) < 20 {
		t.Errorf("%d drills", len(names))
	}
	for i, name := range drawn(names, 3) {
		t.Run(name, func(t *testing.T) { c.play(t, name, strconv.Itoa(i)) })
	}
}

type drillCluster struct{ *whyWorld }

func startDrillCluster(t *testing.T) drillCluster {
	w := &whyWorld{whyCluster: startClusterOf(t, "lab"), ns: "drill"}
	return drillCluster{w}
}

func (c drillCluster) drills(t *testing.T) (names []string) {
	out, err := c.sh("berth drill list")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
		name, _, _ := strings.Cut(line, " ")
		names = append(names, name)
	}
	return names
}

// drillPatience is how long a mend may take to show.
const drillPatience = 60 * time.Second

func (c drillCluster) play(t *testing.T, name, seed string) {
	c.must(t, "berth drill start "+name+" --seed "+seed)
	defer c.must(t, "berth drill stop")
	for range 3 { // it must not only be slow to come up
		if out, err := c.sh("berth drill check"); err == nil || !strings.Contains(out, "Not mended") {
			t.Fatalf("before the mend: %v\n%s", err, out)
		}
		time.Sleep(time.Second)
	}
	c.heldToPage(t)
	mend := c.lastHint(t)
	c.must(t, mend)
	var out string
	var err error
	for end := time.Now().Add(drillPatience); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		if out, err = c.sh("berth drill check"); err == nil {
			if !strings.Contains(out, "Mended after") {
				t.Errorf("it says %q", out)
			}
			return
		}
	}
	state, _ := c.sh("kubectl -n drill get pods -o wide; kubectl get nodes; kubectl get faults")
	t.Errorf("after\n%s\nit is\n%s%s", mend, out, state)
}

// heldToPage asks the page everything about the incident, and the command line, in long runs.
func (c drillCluster) heldToPage(t *testing.T) {
	t.Helper()
	if testing.Short() {
		return
	}
	p, err := c.page()
	if err != nil {
		t.Error(err)
		return
	}
	compared := 0
	for _, q := range p.everything() {
		differs, answered := p.agrees(q)
		if differs != "" {
			t.Errorf("the page does not agree: %s", differs)
		}
		if answered {
			compared++
		}
	}
	if compared == 0 {
		t.Error("not one answer was compared with the page")
	}
}

// lastHint is the mend.
func (c drillCluster) lastHint(t *testing.T) string {
	for {
		out, err := c.sh("berth drill hint")
		if err != nil {
			t.Fatal(err)
		}
		if _, mend, last := strings.Cut(out, "This mends it:\n"); last {
			return mend
		}
	}
}
