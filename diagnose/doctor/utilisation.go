package doctor

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine"
)

var utilisationItem = Item{
	Code: "utilisation", Title: "free GPUs are where work can use them", Owner: check.Scheduler, Needs: []string{"nodes", "pods"}, Find: utilisationFound,
	Meaning: "GPUs that are free one by one on many nodes do not help work that needs eight on one.",
}

func utilisationFound(c *Cluster) Result {
	r := Result{}
	var words []string
	for _, k := range c.capacities() {
		words = append(words, fmt.Sprintf("%d of %d %s in use (%s), fragmentation %s", k.All.Allocated, k.All.GPUs, k.Resource, percent(k.All.Utilisation), percent(k.All.Fragmentation)))
		r.Findings = append(r.Findings, c.fragmented(&k)...)
	}
	r.Looked = cmp.Or(strings.Join(words, "; "), "no GPU is offered")
	return r
}

func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }

// fragmented is work that waits although as many GPUs are free as one of its pods asks for, on no node together.
func (c *Cluster) fragmented(k *Capacity) []Finding {
	onNode, biggest := int64(0), int64(0)
	for _, l := range k.Largest {
		if l.Level == engine.NodeLevel {
			onNode = max(onNode, l.GPUs)
		}
	}
	free := k.All.GPUs - k.All.Allocated
	for _, n := range c.gpus {
		biggest = max(biggest, n.allocatable(k.Resource))
	}
	f := Finding{Severity: Warn, Next: "have work moved together, or pack small work tightly; berth why POD says what would make room"}
	most := int64(0)
	for _, p := range c.pods {
		if asks := p.asks[k.Resource]; p.Spec.NodeName == "" && asks > onNode && asks <= free && asks <= biggest {
			most = max(most, asks)
			f.Objects = append(f.Objects, facts.RefTo(p.Pod).In())
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(p.Pod).In(), Field: "spec.containers", Value: fmt.Sprintf("%d %s", asks, k.Resource)})
		}
	}
	if len(f.Objects) == 0 || len(k.Largest) == 0 {
		return nil
	}
	f.Message = fmt.Sprintf("%s %s for up to %d %s on one node; %d are free, and no node has more than %d free", wording.Pods(len(f.Objects)), wording.InNumber(len(f.Objects), "waits", "wait"), most, k.Resource, free, onNode)
	return []Finding{f}
}
