package kueue

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
)

// Which groups have quotas by flavor. A group with one flavor has no need of it, unless somebody in a cohort has quota of another
// flavor, which is not to be borrowed as this one. Flavors that are GPU models alone are models here.

const tryNext = "TryNextFlavor"

// tell says which of the rules Berth does not have: it looks for places in every flavor before anybody is evicted.
func (f *fungibility) tell(out *dialect.Object) {
	if f.WhenCanPreempt != "" && f.WhenCanPreempt != tryNext {
		out.Unread = append(out.Unread, "spec.flavorFungibility.whenCanPreempt ("+tryNext+")")
	}
}

// mix is, by resource, the one flavor that queues in cohorts have quota of, "" where they have several; GPU models aside.
type mix map[string]string

func mixOf(w dialect.World) mix {
	out := make(mix)
	if w == nil {
		return out
	}
	add := func(groups []resourceGroup) {
		for i := range groups {
			if groups[i].models(w) {
				continue
			}
			for _, r := range groups[i].CoveredResources {
				for _, f := range groups[i].Flavors {
					if was, ok := out[r]; ok && was != f.Name {
						out[r] = ""
					} else {
						out[r] = f.Name
					}
				}
			}
		}
	}
	for _, o := range w.Objects(ClusterQueues, "") {
		if q, ok := o.Value.(*clusterQueue); ok && q.cohort != "" {
			add(q.ResourceGroups)
		}
	}
	for _, o := range w.Objects(Cohorts, "") {
		if c, ok := o.Value.(*cohort); ok {
			add(c.groups)
		}
	}
	return out
}

// apart says whether quotas of the group count by flavor, in a queue of the cohort; "": of none.
func (g *resourceGroup) apart(in string, w dialect.World, others mix) bool {
	if w == nil || len(g.Flavors) == 0 || g.models(w) {
		return false
	}
	return len(g.Flavors) > 1 || in != "" && slices.ContainsFunc(g.CoveredResources, func(r string) bool {
		name, ok := others[r]
		return ok && name != g.Flavors[0].Name
	})
}

// models says whether each flavor of the group is a GPU model.
func (g *resourceGroup) models(w dialect.World) bool {
	return len(g.Flavors) > 0 && !slices.ContainsFunc(g.Flavors, func(f flavor) bool { return modelOf(f.Name, w) == "" })
}

// merged are the names under which quotas of the group's flavors count: of flavors with the same labels, which no node tells apart,
// that of the first.
func (g *resourceGroup) merged(w dialect.World) []string {
	out := make([]string, len(g.Flavors))
	for i, f := range g.Flavors {
		out[i] = f.Name
		for j, o := range g.Flavors[:i] {
			if a, b := specOf(f.Name, w), specOf(o.Name, w); a != nil && b != nil && maps.Equal(a.NodeLabels, b.NodeLabels) {
				out[i] = out[j]
				break
			}
		}
	}
	return out
}

// specOf is what the ResourceFlavor says, nil where there is none.
func specOf(name string, w dialect.World) *flavorSpec {
	if w == nil {
		return nil
	}
	f, _ := valueOf(w, ResourceFlavors, name).(*flavorSpec)
	return f
}

// flavorGroups are the groups of the queue whose quotas count by flavor. A flavor that does not exist is none: its queue lets nobody in.
func flavorGroups(groups []resourceGroup, in string, w dialect.World, others mix) (out []dialect.FlavorGroup) {
	var covered, known []string
	for i := range groups {
		g := &groups[i]
		if !g.apart(in, w, others) {
			continue
		}
		group := dialect.FlavorGroup{}
		for _, r := range g.CoveredResources { // the API server lets no resource be in two groups, nor a flavor
			if !slices.Contains(covered, r) {
				group.Resources, covered = append(group.Resources, r), append(covered, r)
			}
		}
		slices.Sort(group.Resources)
		for _, name := range g.merged(w) {
			if spec := specOf(name, w); spec != nil && !slices.Contains(known, name) {
				group.Flavors, known = append(group.Flavors, dialect.NodeFlavor{Name: name, Labels: spec.NodeLabels}), append(known, name)
			}
		}
		if len(group.Resources) > 0 && len(group.Flavors) > 0 {
			out = append(out, group)
		}
	}
	return out
}

// split has the amounts of resources and models, and those of flavors; nil: none. What is lent of a flavor, or of
// a GPU model, is in the limits of the others.
func split(list []amount) (resources []v1alpha1.QueueResource, flavors *dialect.FlavorQuotas) {
	for _, a := range list {
		if a.flavor == "" {
			if a.GPUModel != "" {
				a.Lend = nil // as of a flavor
			}
			resources = append(resources, a.QueueResource)
			continue
		}
		if flavors == nil {
			flavors = &dialect.FlavorQuotas{}
		}
		flavors.Amounts = append(flavors.Amounts, dialect.FlavorAmount{Resource: a.Name, Flavor: a.flavor, Quota: *a.Quota, Limit: a.Limit})
	}
	return resources[:min(len(resources), dialect.MaxResources)], flavors
}
