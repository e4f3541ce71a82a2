package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// What the stock scheduler says in the condition PodScheduled, for dashboards, alerts and people that look for its words (v1.37.1:
// pkg/scheduler/framework/types.go FitError.Error, pkg/scheduler/schedule_one_podgroup.go). Events and answers have Berth's own.

// StockClaims is what the stock scheduler says of a pod by itself whose resource claims no node could meet if it were empty; invalid is how
// many nodes have pools of devices that contradict themselves. "" where something else keeps it waiting as well: its words have no
// room for that.
func StockClaims(w *engine.Waiting, certs []why.Certificate, invalid int) string {
	nodes := unmet(w, certs)
	if nodes == 0 {
		return ""
	}
	invalid = min(invalid, nodes)
	var reasons []string
	if invalid > 0 {
		reasons = append(reasons, fmt.Sprintf("%d invalid resource pools were encountered", invalid))
	}
	if nodes > invalid {
		reasons = append(reasons, fmt.Sprintf("%d cannot allocate all claims", nodes-invalid))
	}
	slices.Sort(reasons)
	return fmt.Sprintf("0/%d nodes are available: %s. preemption: 0/%d nodes are available: %d Preemption is not helpful for scheduling.", nodes, strings.Join(reasons, ", "), nodes, nodes)
}

// UnmetClaims says whether StockClaims has something to say.
func UnmetClaims(w *engine.Waiting, certs []why.Certificate) bool { return unmet(w, certs) > 0 }

// unmet is how many nodes there are, if the claims of a pod by itself, and nothing else, exclude all of them whatever is free.
func unmet(w *engine.Waiting, certs []why.Certificate) (nodes int) {
	if strings.Count(w.Gang, "/") != 1 || w.Verdict != why.Impossible || len(w.Gates) != 1 {
		return 0
	}
	g := &w.Gates[0]
	if g.Certificate < 0 || g.Certificate >= len(certs) || g.Share != (why.Share{}) {
		return 0
	}
	for _, d := range certs[g.Certificate].Domains {
		for _, r := range d.Rows {
			if len(r.Removed) != 1 || r.Removed[0].Kind != why.ByDevices || r.Removed[0].Nodes != r.Nodes || len(r.Short) > 0 {
				return 0
			}
			nodes += r.Nodes
		}
	}
	return nodes
}

// StockGroup is what the stock scheduler says of the pods of a PodGroup whose minimum has no place because of so many claims that they share, before
// Berth's own sentence.
func StockGroup(minCount int32, shared int, sentence string) string {
	return fmt.Sprintf("pod group is unschedulable, minCount (%d) cannot be satisfied: %d resourceclaim not available on the node of every pod that has it; %s", minCount, shared, sentence)
}
