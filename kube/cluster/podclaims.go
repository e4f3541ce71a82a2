package cluster

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

// claimDevices adds to the pod what its claims ask for or have. missing says what keeps it from the engine.
func (f *Feed) claimDevices(m *member, v *engine.Pod) (missing []string) {
	d := f.devices
	if !d.Decides() {
		return nil
	}
	delete(d.asking, m.key)
	claims, missing := d.claimsOf(m)
	stands := f.extendedClaim(m)
	if len(m.pod.Spec.ResourceClaims) == 0 && len(claims) == 0 && stands == nil {
		return append(missing, f.classless(m)...)
	}
	if len(m.pod.Spec.ResourceClaims) > convert.MaxResourceClaims {
		return nil // it stays unsupported
	}
	var asked convert.Asked
	gpus, parts := int64(0), int64(0)
	has, takes := false, false // devices already, and such as take of their node besides
	var together []string      // claims that it shares with members of its gang
	for _, named := range claims {
		key := named.Key
		c := d.claims[key]
		switch {
		case named.Name == "":
			// While the pod waits, what an earlier start left of it is removed, and counts for nothing.
			if c != nil && !m.waiting() {
				v.Devices = append(v.Devices, d.Held(c)...)
				held, of := d.GPUsHeld(c)
				gpus += max(0, held-v.Requests.Get(d.gpu))
				parts += of
			}
		case c == nil:
			missing = append(missing, "resource claim "+key+" does not exist")
		case c.DeletionTimestamp != nil:
			missing = append(missing, "resource claim "+key+" is being deleted")
		case c.Status.Allocation != nil:
			v.Devices = append(v.Devices, d.Held(c)...)
			if d.pays(m, key) {
				held, of := d.GPUsHeld(c)
				gpus, parts = gpus+held, parts+of
			}
			if m.waiting() {
				has, takes = true, takes || d.TakesOfNode(c)
				v.Nodes = f.reaching(c, v.Nodes)
				if !resourceclaim.IsReservedForPod(m.pod, c, true) && len(c.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize {
					missing = append(missing, fmt.Sprintf("resource claim %s is in use by %d pods, as many as can be", key, len(c.Status.ReservedFor)))
				}
			}
		case m.waiting() || Expected(m.pod):
			first, shared := d.firstOf(m, key)
			if first == m || !shared {
				asked.Add(named.Name, c, func(name string) *resourcev1.DeviceClass { return d.classes[name] })
			}
			if first != m && !shared {
				missing = append(missing, fmt.Sprintf("resource claim %s gets its devices with pod %s first", key, first.pod.Name))
			}
			if shared {
				together = append(together, key)
			}
		}
	}
	keepTogether(v, together)
	delete(d.undone, m.key)
	if m.waiting() {
		v.Devices = nil
		asked.Claims.Counted = stands != nil && len(asked.Claims.Requests) == 0
		counted := int64(0)
		if stands != nil {
			asked.Add("resources", stands, func(name string) *resourcev1.DeviceClass { return d.classes[name] })
			if f.classOf(d.gpu) != nil {
				counted = v.Requests.Get(d.gpu) // they are among its requests already
			}
		}
		asked.Claims.GPUsByCount = v.Part != nil || v.Requests.Get(d.gpu) > counted
		missing = append(missing, f.classless(m)...)
		missing = append(missing, asked.Missing...)
		what := d.Undecided(&asked)
		if takes {
			what = cmp.Or(what, why.NodeResources)
		}
		if has || what != "" {
			d.undone[m.key] = true
		}
		if what != "" {
			v.Features = slices.Clone(v.Features)
			if at := slices.Index(v.Features, why.Claims); at >= 0 {
				v.Features[at] = what
			} else {
				v.Features = append(v.Features, what) // a claim of its PodGroup, or one that stands for resources
			}
			return missing
		}
		if len(asked.Selections) > 0 {
			d.asking[m.key] = true
		}
		d.Learn(&asked)
		f.learnResources(stands)
		whole, of := d.GPUsAsked(&asked)
		gpus += max(0, whole-counted)
		parts += of
		if d.MayChange(&asked) {
			d.undone[m.key] = true
		}
	}
	v.Claims = f.nextClaims(m, v, claims)
	if Expected(m.pod) && m.bound() { // its Job is let in: its GPUs are counted, and which they are its pods will say
		whole, of := d.GPUsAsked(&asked)
		gpus, parts, asked = gpus+whole, parts+of, convert.Asked{}
	}
	if len(asked.Claims.Requests) > 0 {
		v.Claims = &asked.Claims
	}
	if gpus > 0 {
		v.Requests = convert.Plus(v.Requests, d.gpu, gpus)
		m.takes = v.Requests
	}
	v.Claimed = min(parts, engine.MaxClaimDevices*engine.Whole)
	v.Features = slices.DeleteFunc(slices.Clone(v.Features), func(x why.Feature) bool { return x == why.Claims })
	return missing
}

// pays says whether the devices of a claim count as this pod's: as those of the first by name of the pods on nodes that have it.
func (d *devices) pays(m *member, claim string) bool {
	if !m.bound() {
		return false
	}
	//archtest:any-order it asks whether there is one
	for key, o := range d.users[claim] {
		if o.bound() && key < m.key {
			return false
		}
	}
	return true
}

// reaching are those of names, of which nil is all nodes, from which the devices of the claim can be reached.
func (f *Feed) reaching(c *resourcev1.ResourceClaim, names []string) []string {
	skips := convert.SkipsOperations(c)
	if c.Status.Allocation.NodeSelector == nil && !skips {
		return names
	}
	reached := func(*corev1.Node) bool { return true }
	if c.Status.Allocation.NodeSelector != nil {
		match, err := nodeaffinity.NewNodeSelector(c.Status.Allocation.NodeSelector)
		reached = func(n *corev1.Node) bool { return err == nil && match.Match(n) }
	}
	out := []string{}
	//archtest:any-order they are sorted below
	for name, n := range f.nodes.objects {
		if reached(n) && (!skips || convert.MaySkipOperations(n)) && (names == nil || slices.Contains(names, name)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
