package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var driversItem = Item{
	Code: "drivers", Title: "drivers are equal in every pool", Owner: check.Platform, Needs: []string{"nodes"}, Find: driversFound,
	Meaning: "A program that runs on one node of a pool may fail on another whose driver is older, and gangs across both fail whole.",
}

func driversFound(c *Cluster) Result {
	measured := c.measuredDrivers()
	r, told := Result{}, 0
	for _, v := range vendors {
		var nodes []*gpuNode
		for _, n := range c.gpus {
			if slices.Contains(n.vendors, v) {
				nodes = append(nodes, n)
			}
		}
		version := func(n *gpuNode) (string, string) {
			if s, key := v.driverOf(n.Node); s != "" {
				return s, labelField(key)
			}
			return measured[n.Name], "DCGM_FI_DRIVER_VERSION"
		}
		for _, pool := range gather(nodes, poolName) {
			f, known := driversOf(pool, version)
			told += known
			r.Findings = append(r.Findings, f...)
		}
	}
	r.Looked = fmt.Sprintf("versions of %d of %s are known, and equal in every pool", told, wording.Number(len(c.gpus), "node"))
	if told == 0 && slices.ContainsFunc(c.gpus, func(n *gpuNode) bool { return slices.Contains(n.vendors, nvidia) }) {
		r.Blind = "no label or metric tells a driver version"
	}
	return r
}

// measuredDrivers are the versions that exporters name, by node.
func (c *Cluster) measuredDrivers() map[string]string {
	out := make(map[string]string)
	for i := range c.devices {
		if m := &c.devices[i]; m.driver != "" && m.node != "" {
			out[m.node] = m.driver
		}
	}
	return out
}

func driversOf(pool []*gpuNode, version func(*gpuNode) (string, string)) ([]Finding, int) {
	known := slices.DeleteFunc(slices.Clone(pool), func(n *gpuNode) bool { v, _ := version(n); return v == "" })
	byVersion := gather(known, func(n *gpuNode) string { v, _ := version(n); return v })
	if len(byVersion) < 2 {
		return nil, len(known)
	}
	of := func(nodes []*gpuNode) string { v, _ := version(nodes[0]); return v }
	slices.SortStableFunc(byVersion, func(a, b []*gpuNode) int { // the commonest, then the newest
		return cmp.Or(cmp.Compare(len(b), len(a)), compareVersions(of(b), of(a)))
	})
	usual := of(byVersion[0])
	var out []Finding
	for _, odd := range byVersion[1:] {
		f := Finding{
			Severity: Warn, Next: "bring the driver of " + named(odd) + " to " + usual + ", or give the nodes a pool of their own",
			Message: fmt.Sprintf("%s: driver %s on %s, and %s on %s", poolName(odd[0]), of(odd), named(odd), usual, wording.Number(len(byVersion[0]), "other")),
		}
		if major(of(odd)) != major(usual) {
			f.Severity = Fail
		}
		if !slices.ContainsFunc(odd, func(n *gpuNode) bool { return !upgrading(n) }) {
			f.Severity, f.Next = Note, "wait: the driver is being upgraded there"
		}
		out = append(out, nodesAs(f, odd, func(n *gpuNode) []facts.Evidence {
			v, where := version(n)
			return []facts.Evidence{n.evidence(where, v)}
		}))
	}
	return out, len(known)
}

// upgrading says whether the GPU Operator is about to upgrade the node's driver, or at it.
func upgrading(n *gpuNode) bool {
	s := n.Labels[gpustack.LabelUpgrade]
	return s != "" && s != "upgrade-done" && s != "upgrade-failed"
}

func major(version string) string {
	head, _, _ := strings.Cut(version, ".")
	return head
}

// compareVersions compares numbers between dots; what is no number is compared as text.
func compareVersions(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		m, err := strconv.Atoi(x[i])
		n, bad := strconv.Atoi(y[i])
		if err != nil || bad != nil {
			if c := strings.Compare(x[i], y[i]); c != 0 {
				return c
			}
			continue
		}
		if c := cmp.Compare(m, n); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}
