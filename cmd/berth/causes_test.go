package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// started are the causes below the scheduler: a machine that does not become a node with GPUs, and a placed pod that does not start or
// does not get on. Each can be brought about on an embedded cluster by one command or file, and has a story in testdata/why that does so,
// asks `berth why`, and heals it. Those that only a cloud's autoscaler can bring about say so, and those that have no story yet.
var started = []struct {
	cause string
	cloud string // what it needs that an embedded cluster does not have; "": nothing
	as    string // the cause that the story ends in, where that is another: the root of it; "": the same
	by    string // the command that brings it about, where there is no story of it yet; "": there is
}{
	{cause: "pool-at-max", cloud: "an autoscaler's limit"},
	{cause: "autoscaler-template-without-gpu", cloud: "an autoscaler's template"},
	{cause: "no-compatible-pool", cloud: "an autoscaler's pools"},
	{cause: "node-class-not-ready", cloud: "Karpenter's NodeClass"},
	{cause: "machine-never-registered", cloud: "an autoscaler's claim for the machine"},
	{cause: "pool-without-nodes"}, // the same where nothing tells of the machine
	{cause: "node-not-ready"},
	{cause: "node-pressure"},
	{cause: "startup-taint-stays"},
	{cause: "driver-not-ready"},
	{cause: "device-plugin-missing"},
	{cause: "device-plugin-not-registered"},
	{cause: "kubelet-restarting"},
	{cause: "gpu-unhealthy"},
	{cause: "node-quarantined"},
	{cause: "node-cordoned"},
	{cause: "driver-upgrade"},
	{cause: "node-being-removed"},
	{cause: "mig-reconfiguring"},
	{cause: "mig-shape-mismatch"},
	{cause: "dra-driver-silent"},
	{cause: "image-pull"},
	{cause: "runtime-handler-missing"},
	{cause: "cuda-newer-than-driver"},
	{cause: "numa-misfit"},
	{cause: "claim-prepare-failed"},
	{cause: "volume-mount-failed"},
	{cause: "waiting-for-peer", as: "cluster-full"},
	{cause: "running-without-progress"},
	{cause: "crash-loop"},
	{cause: "world-size-mismatch"},
}

func TestEveryCauseBelowTheSchedulerHasAStory(t *testing.T) {
	files, err := filepath.Glob("testdata/why/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[string][]string)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		s := readWhyStory(t, name, file)
		told[s.Cause] = append(told[s.Cause], name)
	}
	for _, c := range started {
		ends := c.cause
		if c.as != "" {
			ends = c.as
		}
		switch stories := told[ends]; {
		case c.cloud != "" && len(told[c.cause]) > 0:
			t.Errorf("%s needs %s, and yet there are stories of it: %s", c.cause, c.cloud, told[c.cause])
		case c.by != "" && len(stories) > 0:
			t.Errorf("%s has stories now: %s", c.cause, stories)
		case c.cloud == "" && c.by == "" && len(stories) == 0:
			t.Errorf("%s has no story in testdata/why", c.cause)
		}
	}
}
