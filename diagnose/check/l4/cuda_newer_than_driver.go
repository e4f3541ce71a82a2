package l4

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var cudaNewerThanDriverCheck = check.Check{
	Cause: "cuda-newer-than-driver", Layer: check.L4, Owner: check.ML, Stage: check.Start, Rank: 20,
	Title:   "The image needs a newer CUDA than the node's driver has",
	Meaning: "NVIDIA's container hook refuses to start the container, because the image was built for a CUDA version that the node's driver does not know.",
	Remedy:  "Use nodes with a newer driver, or an image built for an older CUDA.",
	Not:     "The GPU is broken.",
	Find:    cudaNewerThanDriver,
}

func cudaNewerThanDriver(c *check.Case) []check.Finding {
	for _, k := range life.ContainersOf(c.Pod) {
		if k.Gpus() == 0 {
			continue
		}
		if c.Waits() {
			if f := nodesTooOld(c, &k); f != nil {
				return []check.Finding{*f}
			}
			continue
		}
		if need, ok := gpustack.RefusedCUDA(k.Words()); ok {
			return []check.Finding{cudaRefused(c, &k, need)}
		}
		if line := lineWith(life.LastTail(c.Facts, c.Pod, &k), oldDriver); line != "" && !k.Status.Ready && facts.LastEnd(&k.Status) != nil {
			return []check.Finding{{
				Message:  fmt.Sprintf("the program of %s needs a newer driver than node %s has: %s", k.Noun(), c.Pod.Spec.NodeName, wording.Shortened(line, 160)),
				Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "log of " + k.Name, Value: wording.Shortened(line, 200)}},
			}}
		}
	}
	return nil
}

// cudaRefused words a container that the hook did not start.
func cudaRefused(c *check.Case, k *life.Container, need gpustack.CUDAVersion) check.Finding {
	n := c.NodeNamed(c.Pod.Spec.NodeName)
	have := "has an older driver"
	evidence := []facts.Evidence{k.Said(c.Pod, wording.Shortened(wording.LastLine(k.Words()), 200))}
	if v, ok := gpustack.NodeCUDA(n); ok {
		have = "runs at most " + v.String()
		evidence = append(evidence, facts.Evidence{Object: facts.RefTo(n).In(), Field: `metadata.labels["nvidia.com/cuda.runtime-version.full"]`, Value: v.String()})
	}
	return check.Finding{
		Message:  fmt.Sprintf("image %s of %s needs CUDA %s, and the driver of node %s %s", k.Image, k.Noun(), need, c.Pod.Spec.NodeName, have),
		Evidence: evidence,
		Edits:    newerNodes(c, need, true),
	}
}

// nodesTooOld looks ahead: every node that could take the pod has too old a driver.
func nodesTooOld(c *check.Case, k *life.Container) *check.Finding {
	need, where, sure := gpustack.NeededCUDA(c.Pod, k.Container)
	f := c.Fit
	if f == nil || where == "" {
		return nil
	}
	old := ""
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if !n.Open() || n.Empty == 0 {
			continue
		}
		if !gpustack.TooOldFor(n.Node, need, sure) {
			return nil
		}
		old = n.Name
	}
	if old == "" {
		return nil
	}
	have, _ := gpustack.NodeCUDA(c.NodeNamed(old))
	return &check.Finding{
		Message:  fmt.Sprintf("%s needs CUDA %s (%s), and every node that could take it has an older driver: %s runs at most %s", k.Noun(), need, where, old, have),
		Evidence: []facts.Evidence{{Object: "node/" + old, Field: `metadata.labels["nvidia.com/cuda.runtime-version.full"]`, Value: have.String()}},
		Edits:    newerNodes(c, need, sure),
	}
}

// newerNodes asks for a label value that only nodes with a driver new enough have.
func newerNodes(c *check.Case, need gpustack.CUDAVersion, sure bool) []edit.Edit {
	var out []edit.Edit
	for _, key := range slices.Concat([]string{gpustack.LabelProduct}, gpustack.PoolLabels, []string{"nvidia.com/cuda.runtime-version.full"}) {
		for _, value := range newEnough(c, key, need, sure) {
			if len(out) == 2 {
				return out
			}
			out = append(out, selecting(c, key, value, need))
		}
	}
	return out
}

// newEnough are the values of a label of which all nodes have a driver new enough.
func newEnough(c *check.Case, key string, need gpustack.CUDAVersion, sure bool) []string {
	good, bad := make(map[string]bool), make(map[string]bool)
	for _, n := range c.Nodes {
		v, labelled := n.Labels[key]
		have, known := gpustack.NodeCUDA(n)
		switch {
		case !labelled:
		case known && !gpustack.TooOldFor(n, need, sure) && !have.Older(need):
			good[v] = true
		default:
			bad[v] = true
		}
	}
	var out []string
	for v := range good {
		if !bad[v] {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// selecting is the edit that has the pod ask for the label, in place of what it asks of the same kind.
func selecting(c *check.Case, key, value string, need gpustack.CUDAVersion) edit.Edit {
	e := edit.Edit{Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("ask for nodes with %s %s, whose driver runs CUDA %s: nodeSelector", key[strings.LastIndexByte(key, '/')+1:], value, need)}
	if len(c.Pod.Spec.NodeSelector) == 0 {
		e.Ops = []edit.Op{{Op: "add", Path: "/spec/nodeSelector", Value: map[string]string{key: value}}}
		return e
	}
	e.Ops = []edit.Op{{Op: "add", Path: edit.Pointer("spec", "nodeSelector", key), Value: value}}
	for _, other := range clashing(c.Pod, key) {
		e.Ops = append(e.Ops, edit.Op{Op: "remove", Path: edit.Pointer("spec", "nodeSelector", other)})
	}
	return e
}

// clashing are keys by which the pod asks for GPUs or a pool already, other than the key itself.
func clashing(p *corev1.Pod, key string) []string {
	var out []string
	for _, k := range append([]string{gpustack.LabelProduct}, gpustack.PoolLabels...) {
		if _, ok := p.Spec.NodeSelector[k]; ok && k != key {
			out = append(out, k)
		}
	}
	return out
}
