package engine_test

import (
	"fmt"

	"github.com/berth-dev/berth/engine"
)

// Gangs of some worlds have groups: leaves, and groups of leaves, with minimums, layouts and modes of their own, as PodGroups under a
// CompositePodGroup have. What starts, and what evictions leave, is checked along the tree.

// treed says whether gangs of the world have groups. The worlds of other seeds stay what they are.
func (w *soakWorld) treed() bool { return w.seed%5 == 1 }

// grow gives the gang groups, and says in which its members are.
func (w *soakWorld) grow(g *engine.Gang, size int) func(i int) string {
	if !w.treed() || size < 2 || w.odds(3) {
		return func(int) string { return "" }
	}
	leaves := 2 + w.upTo(min(2, size-2))
	g.Min, g.Size, g.Core = 0, 0, false
	inner := leaves > 2 && w.odds(2) // the last two are below a group of their own
	for i := range leaves {
		leaf := engine.Group{Name: fmt.Sprint("leaf", i), Min: 1, Whole: w.odds(5), Each: w.odds(3)}
		leaf.Layout.Required = soakPick(w, "", "", "", "rack")
		if inner && i >= leaves-2 {
			leaf.Parent = "inner"
		}
		g.Groups = append(g.Groups, leaf)
	}
	if inner {
		g.Groups = append(g.Groups, engine.Group{Name: "inner", MinGroups: 1 + w.upTo(1), Whole: w.odds(5), Each: w.odds(2)})
	}
	at := func(i int) string { return fmt.Sprint("leaf", i%leaves) }
	members := map[string]int{}
	for i := range size {
		members[at(i)]++
	}
	below := 0
	for i := range g.Groups {
		if l := &g.Groups[i]; l.MinGroups == 0 && l.Name != "inner" {
			l.Min = 1 + w.upTo(members[l.Name]-1)
		}
		if g.Groups[i].Parent == "" {
			below++
		}
	}
	g.MinGroups, g.Each = soakPick(w, 0, 1+w.upTo(below-1)), w.odds(2)
	return at
}

// editGroups changes a minimum of the gang's groups.
func (w *soakWorld) editGroups(g *engine.Gang) {
	g.Groups = append([]engine.Group(nil), g.Groups...)
	if w.odds(2) {
		below := 0
		for i := range g.Groups {
			if g.Groups[i].Parent == "" {
				below++
			}
		}
		g.MinGroups = w.upTo(below)
		return
	}
	l := &g.Groups[w.r.IntN(len(g.Groups))]
	switch {
	case l.Name == "inner":
		l.MinGroups = 1 + w.upTo(1)
	default:
		l.Min = 1 + w.upTo(1)
	}
	l.Whole, l.Each = w.odds(4), w.odds(3)
}

// enough says whether the gang has its minimum with so many members in each leaf.
func enough(g *engine.Gang, members map[string]int) bool {
	var has func(name string, minGroups int) bool
	has = func(name string, minGroups int) bool {
		below, have := 0, 0
		for i := range g.Groups {
			c := &g.Groups[i]
			if c.Parent != name {
				continue
			}
			below++
			if c.Name == "inner" && has(c.Name, c.MinGroups) || c.Name != "inner" && members[c.Name] >= max(1, c.Min) {
				have++
			}
		}
		if minGroups == 0 {
			minGroups = below
		}
		return have >= minGroups
	}
	return has("", g.MinGroups)
}

// checkTree checks that a gang with groups starts whole, and that evictions leave it whole or leave nothing.
func (w *soakWorld) checkTree(plan engine.Plan) {
	for _, s := range plan.Starts {
		if job := w.jobs[s.Gang]; job != nil && job.gang != nil && len(job.gang.Groups) > 0 && !enough(job.gang, w.stayingIn(job, nil)) {
			w.fail("whole", "%s starts (%s) with %v, its groups are %+v", s.Gang, s.Kind, w.stayingIn(job, nil), job.gang.Groups)
		}
	}
	hit, own := map[*soakJob]map[string]bool{}, map[*soakJob]bool{} // own: for its own sake, in part
	for _, e := range plan.Evictions {
		if p := w.pods[e.Pod]; p.job.gang != nil && len(p.job.gang.Groups) > 0 && e.Cause != engine.Booked {
			if hit[p.job] == nil {
				hit[p.job] = map[string]bool{}
			}
			hit[p.job][e.Pod] = true
			own[p.job] = own[p.job] || e.For == "" || e.Cause == engine.Moved
		}
	}
	for job, pods := range hit {
		if w.refusals(job) > 0 || len(w.stayingIn(job, nil)) == 0 {
			continue
		}
		laws := []func(*soakPod) bool{w.seated}
		if !own[job] {
			laws = append(laws, (*soakPod).runs) // a binding that is on its way may fail
		}
		for _, where := range laws {
			left := w.stayingAt(job, nil, where)
			if len(left) == 0 && w.startedAnew(job, plan) {
				continue // all of it went, and it has begun again
			}
			if !enough(job.gang, left) && enough(job.gang, w.stayingAt(job, pods, where)) {
				w.fail("torn", "%s lost %v to evictions, %v stay, its groups are %+v", job.key, soakKeys(pods), left, job.gang.Groups)
			}
		}
	}
}

// stayingIn is how many members have a place and are not on their way out, or are among those, by leaf.
func (w *soakWorld) stayingIn(job *soakJob, and map[string]bool) map[string]int {
	return w.stayingAt(job, and, w.seated)
}

func (w *soakWorld) stayingAt(job *soakJob, and map[string]bool, where func(*soakPod) bool) map[string]int {
	out := map[string]int{}
	for _, key := range job.pods {
		if p := w.pods[key]; p != nil && (!w.leaving(p) || and[key]) && where(p) {
			out[p.Subgroup]++
		}
	}
	return out
}

// startedAnew says whether all members of the job that have a place, and keep it, got it by this plan.
func (w *soakWorld) startedAnew(job *soakJob, plan engine.Plan) bool {
	got := map[string]bool{}
	for _, s := range plan.Starts {
		for _, p := range s.Placements {
			got[p.Pod] = true
		}
	}
	return len(w.stayingAt(job, nil, func(p *soakPod) bool { return w.seated(p) && !got[p.Key] })) == 0
}

// seated says whether the pod has a place, and runs whether it is bound to it.
func (w *soakWorld) seated(p *soakPod) bool {
	node, _ := w.seatOf(p)
	return node != ""
}

func (p *soakPod) runs() bool { return p.Node != "" }

// bound is how many members are on nodes and stay there, by leaf.
func (w *soakWorld) bound(job *soakJob) map[string]int {
	out := map[string]int{}
	for _, key := range job.pods {
		if p := w.pods[key]; p != nil && p.Node != "" && !p.Terminating {
			out[p.Subgroup]++
		}
	}
	return out
}
