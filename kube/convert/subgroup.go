package convert

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// tree puts the leaves of the gang below the subgroups that their paths name, gives subgroups the level and the minimum of
// subgroups that pods ask for them, and returns the minimum of the gang itself. Of pods that differ the lowest-named counts.
func (r *reader) tree(g *engine.Gang, finished map[string]int) (least int) {
	at, leaves := make(map[string]int, len(g.Groups)), len(g.Groups)
	for i := range g.Groups {
		at[g.Groups[i].Name] = i
	}
	for i := 0; i < len(g.Groups); i++ { // it grows by the subgroups above
		name := g.Groups[i].Name
		cut := strings.LastIndexByte(name, '/')
		if cut < 0 {
			continue
		}
		above := name[:cut]
		g.Groups[i].Parent = above
		switch up, ok := at[above]; {
		case ok && up < leaves:
			r.problems = append(r.problems, fmt.Sprintf("subgroup %s has pods of its own beside those of subgroup %s", quoted(above), quoted(name)))
		case !ok && len(g.Groups) <= MaxSubgroups:
			at[above] = len(g.Groups)
			g.Groups = append(g.Groups, engine.Group{Name: above})
		}
	}
	r.eachPart(v1alpha1.KeySubgroupTopology, at, func(p *corev1.Pod, i int, level string) {
		if l := &g.Groups[i].Layout; l.Required == "" {
			l.Required = level
		}
	})
	r.eachPart(v1alpha1.KeyMinSubgroups, at, func(p *corev1.Pod, i int, value string) {
		n, ok := number(value)
		switch {
		case !ok:
			r.reject(p, v1alpha1.KeyMinSubgroups, value, "a whole number of subgroups, or serve=2 for those of the subgroup serve")
		case i < 0 && least == 0:
			least = n
		case i >= 0 && g.Groups[i].MinGroups == 0:
			g.Groups[i].MinGroups = n
		}
	})
	least = r.over(g, least, finished)
	r.lacking(g, least)
	slices.SortFunc(g.Groups, func(a, b engine.Group) int { return strings.Compare(a.Name, b.Name) })
	return least
}

// over takes from a minimum of subgroups those all of whose pods have succeeded: nobody waits for them any more.
func (r *reader) over(g *engine.Gang, least int, finished map[string]int) int {
	for name := range finished { //archtest:any-order it counts
		if !strings.Contains(name, "/") && name != "" && least > 1 && !slices.ContainsFunc(g.Groups, func(o engine.Group) bool { return o.Name == name }) {
			least--
		}
	}
	return least
}

// lacking says which subgroups, and whether the gang itself, have fewer subgroups than must start: more are to come.
func (r *reader) lacking(g *engine.Gang, least int) {
	below := make(map[string]int)
	for i := range g.Groups {
		below[g.Groups[i].Parent]++
	}
	if n := below[""]; least > n {
		r.problems = append(r.problems, fmt.Sprintf("%d subgroups must start, and pods name %d so far", least, n))
	}
	for i := range g.Groups {
		if c := &g.Groups[i]; c.MinGroups > below[c.Name] {
			r.problems = append(r.problems, fmt.Sprintf("%d subgroups of %s must start, and pods name %d so far", c.MinGroups, quoted(c.Name), below[c.Name]))
		}
	}
}

// eachPart calls do for every item of the pods' values under the key: a value by itself, which is about the pod's own
// subgroup where the key is about one and about the gang, -1, where it counts subgroups; or subgroup=value. at is the place of
// each subgroup. Values that pods share are read once.
func (r *reader) eachPart(key string, at map[string]int, do func(p *corev1.Pod, group int, value string)) {
	type said struct{ part, value string }
	seen := make(map[said]bool)
	for _, p := range r.pods {
		v := asked(&p.ObjectMeta, key)
		if v == "" || seen[said{subgroup(p), v}] || len(r.problems) >= MaxProblems {
			continue
		}
		seen[said{subgroup(p), v}] = true
		for item := range strings.SplitSeq(v, ",") {
			item = strings.TrimSpace(item)
			name, value, named := strings.Cut(item, "=")
			if !named {
				name, value = subgroup(p), item
			}
			i, ok := at[strings.TrimSpace(name)]
			if !named && key == v1alpha1.KeyMinSubgroups {
				i, ok = -1, true
			}
			switch value = strings.TrimSpace(value); {
			case value == "":
				r.reject(p, key, v, "no empty items")
			case !ok:
				r.problems = append(r.problems, fmt.Sprintf("%s of pod %s names subgroup %s, which no pod is in", key, p.Name, quoted(name)))
			default:
				do(p, i, value)
			}
		}
	}
}
