package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine"
)

// Some worlds edit what waits and what runs: priorities, queues, terms, minimums and layouts of gangs, labels and tolerations of pods,
// what they ask for (in-place resize), budgets; they label and taint nodes anew, make a node or a queue anew under its name, and take
// pods out of their gang. Kubernetes lets authors or controllers edit all of these; the rest they make anew.

// edited says whether the world is one of them. The worlds of other seeds stay what they are.
func (w *soakWorld) edited() bool { return w.seed%7 < 3 }

// edit edits something now and then.
func (w *soakWorld) edit() {
	if !w.edited() || !w.odds(4) {
		return
	}
	switch w.upTo(11) {
	case 0, 1, 2, 3:
		if job := w.jobs[soakSome(w, w.jobs)]; job != nil {
			w.editJob(job)
		}
	case 4, 5:
		if p := w.pods[soakSome(w, w.pods)]; p != nil && !p.Terminating {
			w.editPod(p)
		}
	case 6:
		w.resize()
	case 7, 8:
		w.editNode()
	case 9:
		w.replaceNode()
	case 10:
		w.replaceQueue()
	default:
		w.disband()
	}
}

// terms are those of the job's workload.
func (w *soakWorld) terms(job *soakJob, change func(*engine.Terms, *int32, *string)) {
	if g := job.gang; g != nil {
		next := *g
		change(&next.Terms, &next.Priority, &next.Queue)
		w.tellGang(job, &next)
		return
	}
	for _, key := range job.pods {
		if p := w.pods[key]; p != nil {
			change(&p.Terms, &p.Priority, &p.Queue)
			w.tellPod(p)
		}
	}
}

func (w *soakWorld) tellGang(job *soakJob, g *engine.Gang) {
	g.Version = w.next()
	job.gang = g
	w.tell(engine.Change{Gang: g})
}

// editJob changes what holds for a workload.
func (w *soakWorld) editJob(job *soakJob) {
	what := ""
	switch n := w.upTo(8); {
	case n == 0:
		w.terms(job, func(_ *engine.Terms, priority *int32, _ *string) {
			*priority = int32(w.upTo(2))
			what = fmt.Sprint("priority ", *priority)
		})
	case n == 1:
		w.terms(job, func(_ *engine.Terms, _ *int32, queue *string) {
			*queue = soakSome(w, w.queues)
			what = "queue " + *queue
		})
	case n == 2:
		w.terms(job, func(t *engine.Terms, _ *int32, _ *string) {
			t.Max, t.Expected = soakPick(w, 0, 0, job.run/2+time.Second, 2*job.run), soakPick(w, 0, job.run, 2*job.run)
			t.Checkpoint, t.Delay, t.Patient = soakPick(w, 0, 5*time.Minute), soakPick(w, 0, 0, 2*time.Minute), w.odds(6)
			what = fmt.Sprintf("terms %+v", *t)
		})
	case n == 3:
		held := !w.odds(3)
		w.terms(job, func(t *engine.Terms, _ *int32, _ *string) {
			t.Held = held && !t.Held
			what = fmt.Sprint("held ", t.Held)
		})
	case job.gang == nil:
		return
	case n <= 5:
		g := *job.gang
		if len(g.Groups) > 0 {
			w.editGroups(&g)
		} else {
			g.Min = 1 + w.upTo(len(job.pods))
			g.Size = soakPick(w, 0, max(g.Min, len(job.pods)))
		}
		w.tellGang(job, &g)
		what = fmt.Sprintf("%+v %+v", g.Group, g.Groups)
	case n == 6:
		g := *job.gang
		g.Core, g.Whole, g.Each = w.odds(3), w.odds(3), g.Layout.Segment == 0 && w.odds(3)
		w.tellGang(job, &g)
		what = fmt.Sprintf("core %v whole %v each %v", g.Core, g.Whole, g.Each)
	default:
		g := *job.gang
		g.Layout.Required, g.Layout.WholeNodes = soakPick(w, "", "", "rack", "block"), w.odds(8)
		w.tellGang(job, &g)
		what = fmt.Sprintf("layout %+v", g.Layout)
	}
	w.diary("edited %s: %s", job.key, what)
}

// editPod changes what may change of a pod that exists.
func (w *soakWorld) editPod(p *soakPod) {
	switch w.upTo(3) {
	case 0:
		p.Evictable = !p.Evictable
	case 1:
		p.Labels = map[string]string{"app": soakPick(w, "a", "b", "c")}
	case 2:
		p.Tolerations = []engine.Toleration{{Key: "team", Op: "Exists"}}
	default:
		p.Budgets = soakPick(w, nil, []string{"ns/pdb0"}, []string{"ns/pdb0", "ns/pdb1"})
	}
	w.diary("edited %s: evictable %v, labels %v, tolerations %v, budgets %v", p.Key, p.Evictable, p.Labels, p.Tolerations, p.Budgets)
	w.tellPod(p)
}

// resize changes what a pod asks for beside GPUs, where it is.
func (w *soakWorld) resize() {
	p := w.pods[soakSome(w, w.pods)]
	if p == nil || p.Terminating {
		return
	}
	p.Requests = slices.Clone(p.Requests)
	i := slices.IndexFunc(p.Requests, func(a engine.Amount) bool { return a.Resource == engine.CPU })
	if i < 0 {
		return
	}
	p.Requests[i].Value = int64(w.upTo(12)) * 1000
	w.diary("resized %s: %v", p.Key, p.Requests)
	w.tellPod(p)
}

// editNode labels a node anew, or taints it.
func (w *soakWorld) editNode() {
	name := soakSome(w, w.nodes)
	if name == "" {
		return
	}
	n := w.nodes[name]
	n.Labels = maps.Clone(n.Labels)
	switch w.upTo(2) {
	case 0:
		n.Labels["rack"] = soakPick(w, "0", "1", "2")
	case 1:
		if n.Labels["block"] = soakPick(w, "0", "1"); w.odds(4) {
			delete(n.Labels, "block")
		}
	default:
		n.Taints = nil
		if w.odds(2) {
			n.Taints = []engine.Taint{{Key: "team", Value: "a", Effect: "NoSchedule"}}
		}
	}
	w.diary("node %s: %v, taints %v", name, n.Labels, n.Taints)
	w.tellNode(n)
}

// replaceNode has another machine come under the name of one: at once, or as the same object with other devices. What was on it is gone, or
// goes.
func (w *soakWorld) replaceNode() {
	name := soakSome(w, w.nodes)
	if name == "" {
		return
	}
	again, at := w.odds(2), w.odds(2)
	if again {
		delete(w.nodes, name)
		w.gone(engine.KindNode, name)
	}
	w.diary("node %s is another, made anew %v", name, again)
	if again && w.odds(2) { // its pods go before the next comes
		w.evacuate(name, at)
		w.addNode(name)
		return
	}
	w.addNode(name)
	w.evacuate(name, at)
}

// evacuate takes away what is on the node, at once or not.
func (w *soakWorld) evacuate(name string, at bool) {
	for _, key := range soakKeys(w.pods) {
		if p := w.pods[key]; p != nil && p.Node == name {
			if at {
				w.remove(p, true)
			} else {
				w.terminate(p, time.Minute)
			}
		}
	}
}

// replaceQueue deletes a queue and makes another of its name.
func (w *soakWorld) replaceQueue() {
	name := soakSome(w, w.queues)
	if name == "" {
		return
	}
	delete(w.queues, name)
	w.gone(engine.KindQueue, name)
	w.diary("queue %s is made anew", name)
	w.editQueue(name)
}

// disband makes each pod of a gang a workload of its own.
func (w *soakWorld) disband() {
	job := w.jobs[soakSome(w, w.jobs)]
	if job == nil || job.gang == nil {
		return
	}
	g := job.gang
	delete(w.jobs, job.key)
	w.diary("disbanded %s: %v", job.key, job.pods)
	first := w.odds(2)
	if first {
		w.gone(engine.KindGang, job.key)
	}
	for _, key := range job.pods {
		p := w.pods[key]
		if p == nil {
			continue
		}
		p.job = &soakJob{key: key, pods: []string{key}, run: job.run, began: job.began, returns: job.returns, lives: job.lives}
		w.jobs[key] = p.job
		p.Gang, p.Subgroup, p.Rank = "", "", 0
		p.Queue, p.User, p.Priority, p.Terms = g.Queue, g.User, g.Priority, g.Terms
		if job.returns {
			p.Owner = key
		}
		w.tellPod(p)
	}
	if !first {
		w.gone(engine.KindGang, job.key)
	}
}

// checkTaints checks that nothing starts on a node whose taint it does not tolerate.
func (w *soakWorld) checkTaints(plan engine.Plan) {
	for _, s := range plan.Starts {
		for _, x := range s.Placements {
			if len(w.nodes[x.Node].Taints) > 0 && len(w.pods[x.Pod].Tolerations) == 0 {
				w.fail("taint", "%s starts on %s, which has %v", x.Pod, x.Node, w.nodes[x.Node].Taints)
			}
		}
	}
}
