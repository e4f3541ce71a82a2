package join

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/gpustack"
)

// hold gives the GPUs to the pods that have them: those that their annotation names, else as many as they ask for, busy ones
// first. Of shares and parts, as many GPUs as they make up, rounded up.
func (w *world) hold(n *corev1.Node, out []device, units map[corev1.ResourceName]int64) {
	more := make(map[corev1.ResourceName][]asked)
	for _, p := range w.facts.PodsOn(n.Name) {
		key := p.Namespace + "/" + p.Name
		if ids := givenTo(p); len(ids) > 0 {
			known := false
			for _, id := range ids {
				if at := slices.IndexFunc(out, func(d device) bool { return d.id != "" && d.id == id }); at >= 0 {
					out[at].held, known = true, true
					out[at].pods = append(out[at].pods, key)
				}
			}
			if known {
				continue
			}
		}
		//archtest:any-order each has its own list
		for name := range units {
			if amount := gpustack.GPURequest(p, name); amount > 0 {
				more[name] = append(more[name], asked{key, amount})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		take(out, more[name], max(units[name], 1))
	}
}

// asked is what a pod asks for of a resource, without saying which GPUs it was given.
type asked struct {
	pod    string
	amount int64
}

// take gives the pods GPUs that are free, busy ones first. per of the resource make up all GPUs that the node advertises.
func take(out []device, pods []asked, per int64) {
	advertised, total := int64(0), int64(0)
	for i := range out {
		if out[i].advertised {
			advertised++
		}
	}
	for _, a := range pods {
		total += min(a.amount, per-total)
	}
	var taken []int
	need := int((total*advertised + per - 1) / per)
	for _, busy := range []bool{true, false} {
		for i := range out {
			if len(taken) < need && out[i].well && !out[i].held && out[i].use == busy {
				out[i].held = true
				taken = append(taken, i)
			}
		}
	}
	var from int64
	for _, a := range pods {
		to := from + min(a.amount, per-from)
		first, end := from*advertised/per, (to*advertised+per-1)/per
		for i := first; i < min(end, int64(len(taken))); i++ {
			out[taken[i]].pods = append(out[taken[i]].pods, a.pod)
		}
		from = to
	}
}

// claimedBy are the pods of claims that have a device, by pool/device.
func (w *world) claimedBy() map[string][]string {
	out := make(map[string][]string)
	for _, c := range w.facts.ResourceClaims {
		if c.Status.Allocation == nil {
			continue
		}
		for _, d := range c.Status.Allocation.Devices.Results {
			for _, r := range c.Status.ReservedFor {
				if r.Resource == "pods" {
					out[d.Pool+"/"+d.Device] = append(out[d.Pool+"/"+d.Device], c.Namespace+"/"+r.Name)
				}
			}
		}
	}
	return out
}
