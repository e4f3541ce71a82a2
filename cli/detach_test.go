package cli

import (
	"strings"
	"testing"
	"time"
)

func TestADetachedChildGetsWhatTheParentWasAsked(t *testing.T) {
	o := &upOptions{name: "n", speed: 60, apiPort: 7000, defaultScheduler: "berth", gangGrace: time.Minute, policy: policyFlags{policy: "strict", heads: "4", overtake: time.Hour, moves: "on", rates: []string{"H100=2"}}, fleet: "lab", data: "/d", ephemeral: true, cold: true, merge: true}
	if got, want := strings.Join(o.childArgs(), " "), "up --name n --speed 60 --api-port 7000 --default-scheduler berth --gang-grace 1m0s --policy strict --gpu-rate H100=2 --data /d --ephemeral --cold --merge-kubeconfig"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	o.fleetGiven = true
	if got := strings.Join(o.childArgs(), " "); !strings.Contains(got, "--fleet lab") {
		t.Errorf("a fleet that was asked for got lost: %s", got)
	}
}
