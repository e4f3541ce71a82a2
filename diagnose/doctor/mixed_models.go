package doctor

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var mixedModelsItem = Item{
	Code: "mixed-models", Title: "every node has GPUs of one model", Owner: check.Platform, Needs: []string{"nodes"}, Find: mixedModelsFound,
	Meaning: "A device plugin counts GPUs and does not tell models apart: on a mixed node nobody knows which one a pod gets, and labels name one of them.",
}

func mixedModelsFound(c *Cluster) Result {
	r := Result{Looked: wording.Number(len(c.gpus), "node") + " with GPUs"}
	models := c.modelsByNode()
	for _, n := range c.gpus {
		f := Finding{Severity: Warn, Next: "keep machines with one model apart from others, or offer the GPUs through DRA, which tells them apart"}
		var show []facts.Evidence
		switch seen := models[n.Name]; {
		case len(n.vendors)+len(n.other) > 1:
			var names []string
			for _, v := range n.vendors {
				names = append(names, v.name)
			}
			f.Message = fmt.Sprintf("node %s has GPUs of several vendors: %s", n.Name, wording.AtMost(4, append(names, n.other...)))
			for _, res := range n.resources() {
				show = append(show, n.evidence(`status.capacity["`+res+`"]`, fmt.Sprint(n.capacity(res))))
			}
		case len(seen.names) > 1:
			f.Message = fmt.Sprintf("node %s has GPUs of %d models: %s", n.Name, len(seen.names), wording.AtMost(4, seen.names))
			show = seen.evidence
		default:
			f.Message, show = moreThanLabelled(n)
		}
		if f.Message != "" {
			r.Findings = append(r.Findings, nodesAs(f, []*gpuNode{n}, func(*gpuNode) []facts.Evidence { return show }))
		}
	}
	return r
}

// moreThanLabelled says whether the node offers more GPUs than feature discovery counts, which counts those of one model.
func moreThanLabelled(n *gpuNode) (string, []facts.Evidence) {
	for _, v := range n.vendors {
		units, parts := n.offered(v)
		count, ok := v.counted(n.Node)
		if !ok || parts || units <= count {
			continue
		}
		return fmt.Sprintf("node %s offers %d GPUs, and its labels count %d %s: the others are of a model that no label names, or the label is not true", n.Name, units, count, n.Labels[v.product]),
			[]facts.Evidence{n.evidence("status.capacity", fmt.Sprint(units)), n.evidence(labelField(v.count), n.Labels[v.count])}
	}
	return "", nil
}

// seenModels are the models that were seen in a node.
type seenModels struct {
	names    []string // sorted
	evidence []facts.Evidence
}

// modelsByNode are the models that metrics and ResourceSlices name.
func (c *Cluster) modelsByNode() map[string]seenModels {
	out := make(map[string]seenModels)
	add := func(node, model string, e facts.Evidence) {
		s := out[node]
		if model == "" || node == "" || slices.Contains(s.names, model) {
			return
		}
		s.names, s.evidence = append(s.names, model), append(s.evidence, e)
		slices.Sort(s.names)
		out[node] = s
	}
	for i := range c.devices {
		m := &c.devices[i]
		add(m.node, dashed(m.model), facts.Evidence{Object: m.object(), Field: `modelName{gpu="` + m.gpu + `"}`, Value: m.model})
	}
	for _, s := range c.ResourceSlices {
		for _, d := range s.Spec.Devices {
			if a, ok := d.Attributes["productName"]; ok {
				name := ptr.Deref(a.StringValue, "")
				add(ptr.Deref(s.Spec.NodeName, ""), dashed(name), facts.Evidence{Object: "resourceslice/" + s.Name, Field: "spec.devices[" + d.Name + "].attributes.productName", Value: name})
			}
		}
	}
	return out
}
