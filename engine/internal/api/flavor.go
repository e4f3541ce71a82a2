package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FlavorGroup is some resources whose amounts count apart by the flavor of the node.
type FlavorGroup struct {
	Resources []string `json:"resources"` // sorted; a resource is in one group at most
	Flavors   []Flavor `json:"flavors"`   // in the order in which they are tried
}

// Flavor is a kind of nodes: those that have its labels, and not those of a flavor of its group with more of them. Of flavors with as
// many the first counts, so that a node is of one flavor of a group, or of none.
type Flavor struct {
	Name   string            `json:"name"` // unique in the queue
	Labels map[string]string `json:"labels,omitempty"`
}

// The most that a queue may have of groups, and of flavors in all of them.
const (
	MostFlavorGroups = 16
	MostFlavors      = 64
	// mostApart bounds the ways in which a node of one flavor of each group can be told from nodes of flavors that overlap with them.
	mostApart = 256
)

// OfFlavor names, in amounts of queues, the resource as far as it is of one flavor.
func OfFlavor(resource, flavor string) string { return resource + "#" + flavor }

// FlavorOf undoes OfFlavor; false: the name is of no flavor.
func FlavorOf(name string) (resource, flavor string, ok bool) { return strings.Cut(name, "#") }

// Of is the place of the flavor that a node with the labels is of, -1 for none.
func (g *FlavorGroup) Of(labels map[string]string) int {
	best := -1
	for i := range g.Flavors {
		f := &g.Flavors[i]
		//mutate: flavor-most-labels -> best < 0 && f.on(labels)
		if f.on(labels) && (best < 0 || len(f.Labels) > len(g.Flavors[best].Labels)) {
			best = i
		}
	}
	return best
}

// on says whether a node with the labels has all of the flavor's.
func (f *Flavor) on(labels map[string]string) bool {
	for key, value := range f.Labels { //archtest:any-order it asks whether one is missing
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// Apart lists, for each flavor of the group that comes before the i-th on a node with the labels of both, the labels that it has and
// the i-th has not: a node of the i-th lacks one of each.
func (g *FlavorGroup) Apart(i int) (out []map[string]string) {
	f := &g.Flavors[i]
	for j := range g.Flavors {
		o := &g.Flavors[j]
		if j == i || len(o.Labels) < len(f.Labels) || len(o.Labels) == len(f.Labels) && j > i {
			continue
		}
		more := make(map[string]string)
		for key, value := range o.Labels { //archtest:any-order it fills a map
			if got, ok := f.Labels[key]; !ok {
				more[key] = value
			} else if got != value {
				more = nil // no node has both
				break
			}
		}
		if more != nil {
			out = append(out, more)
		}
	}
	return out
}

// ways is in how many ways a node of the i-th flavor can lack what Apart lists.
func (g *FlavorGroup) ways(i int) int {
	n := 1
	for _, more := range g.Apart(i) {
		n = min(n*len(more), mostApart+1)
	}
	return n
}

// checkFlavors is Check of the flavors, and of the amounts that name one.
func (q *Queue) checkFlavors() string {
	for _, a := range q.Lend {
		if strings.Contains(a.Resource, "@") {
			return fmt.Sprintf("lend: %s: what is lent is of a resource as a whole; limit the other queues' amounts of one model instead", a.Resource)
		}
		if _, _, ok := FlavorOf(a.Resource); ok {
			return fmt.Sprintf("lend: %s: what is lent of one flavor is said by the limits of the other queues", a.Resource)
		}
	}
	if len(q.Flavors) > MostFlavorGroups {
		return fmt.Sprintf("flavors: %d groups: the limit is %d", len(q.Flavors), MostFlavorGroups)
	}
	var resources, names []string
	ways := 1
	for i := range q.Flavors {
		g := &q.Flavors[i]
		if len(g.Resources) == 0 || len(g.Flavors) == 0 || !slices.IsSorted(g.Resources) {
			return "flavors: a group needs resources, sorted, and flavors"
		}
		most := 1
		for j := range g.Flavors {
			f := &g.Flavors[j]
			if f.Name == "" || strings.ContainsAny(f.Name, "#@") || slices.Contains(names, f.Name) {
				return fmt.Sprintf("flavors: %q: want a name without # and @, once in a queue", f.Name)
			}
			for _, o := range g.Flavors[:j] {
				if maps.Equal(o.Labels, f.Labels) {
					return fmt.Sprintf("flavors: %s and %s have the same labels", o.Name, f.Name)
				}
			}
			names, most = append(names, f.Name), max(most, g.ways(j))
		}
		if ways *= most; ways > mostApart {
			return fmt.Sprintf("flavors: those of %s overlap in more ways than %d", strings.Join(g.Resources, ", "), mostApart)
		}
		resources = append(resources, g.Resources...)
	}
	slices.Sort(resources)
	if i := 1 + slices.IndexFunc(resources, func(r string) bool { return r == "" || strings.ContainsAny(r, "#@") }); i > 0 {
		return fmt.Sprintf("flavors: %q is no resource", resources[i-1])
	}
	if len(slices.Compact(slices.Clone(resources))) < len(resources) {
		return "flavors: a resource is in two groups"
	}
	if len(names) > MostFlavors {
		return fmt.Sprintf("flavors: %d: the limit is %d", len(names), MostFlavors)
	}
	return ""
}
