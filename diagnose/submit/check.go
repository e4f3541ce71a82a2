package submit

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/diagnose/submit/rule"
	"github.com/berth-dev/berth/diagnose/submit/workload"
	"github.com/berth-dev/berth/engine"
)

// Item is one manifest.
type Item struct {
	File   string
	Line   int
	Object map[string]any
	// Refused is what the API server said where it did not take the object in dry run, and RefusedBy who: "quota",
	// "policy", "webhook", "validation" and the like.
	Refused, RefusedBy string
	// Admitted are the pods of its templates as the API server admitted one of each in dry run, by the JSON pointer of the
	// template. Templates without one get the API's defaults from a table.
	Admitted map[string]*corev1.Pod
	// Said is what else the API server made of it, with paths in the object.
	Said rule.Said

	LineOf func(pointer string) int // of a field; nil: Line
}

func (i *Item) lineOf(pointer string) int {
	if i.LineOf == nil {
		return i.Line
	}
	return i.LineOf(pointer)
}

// submission is one workload on its way through the check.
type submission struct {
	item *Item
	*workload.Workload
	pods   []*corev1.Pod // of all parts
	placed int           // that the plan starts
	enough bool          // to run
	first  *corev1.Pod   // that the plan does not start; nil: it starts all
	waits  Workload      // what the plan has it wait for
	// letInAlone is how many of its pods start on the cluster without other work, where something other than room stops the next; 0: nothing does.
	letInAlone int
	past       string // why the node that it names, past every scheduler, does not take it; "": it does, or none is named
	result     Workload
	shaped     string // see shape
	fault      *workload.Fault
}

// unplanned says whether its pods will not exist, as the API server refuses them.
func (s *submission) unplanned() bool { return s.item.Refused != "" || s.fault != nil }

// checker is one check.
type checker struct {
	world     World
	items     []Item
	namespace string // of objects that name none
	uids      int
	assumes   []string
	now       *facts.Facts // with the manifests
	subs      []*submission
	full      *planner
	// alone is the same cluster without other work; made when it is first asked for
	alone *planner
	plan  engine.Plan
	where map[string]string // node, by pod, of all that starts
	byKey map[string]*corev1.Pod
	// what the plan says, by the key of the workload
	borrowed map[string]engine.Resources // what its starts take beyond its quota
	waiting  map[string]*engine.Waiting
	over     map[string]*refusal // pods that quotas do not let in
	evicting map[string][]string // pods
	// answers that hold for every workload of a shape; see shape
	held    map[string]answer
	never   map[string]answer
	holders map[string][]Holder
	nodes   rule.Nodes
	vain    map[*Item][]string // what they ask for and Berth does not do
	// why nothing was planned of an object that may have pods
	unplanned map[*Item]string
}

// Check says what will become of the manifests, submitted together and now.
func Check(w World, namespace string, items []Item) Report {
	c := newChecker(w)
	r := Report{APIVersion: diagnose.APIVersion, Kind: Kind, At: w.Facts.At, Against: w.Against, Assumes: w.Assumes, Unseen: slices.Clone(w.Facts.Unseen), Workloads: []Workload{}}
	objects := c.read(namespace, items)
	c.items, c.namespace = items, namespace
	c.now = with(w.Facts, objects)
	c.openBroken()
	c.full = c.planner(c.now)
	c.place()
	c.unspoken()
	for _, s := range c.subs {
		c.judge(s)
		s.result.Findings = rule.Find(c.caseOf(s))
		for i := range s.result.Findings {
			f := &s.result.Findings[i]
			s.place(f)
			f.File, f.Line = s.item.File, s.item.lineOf(f.Path)
		}
		r.Workloads = append(r.Workloads, s.result)
	}
	around := &rule.World{Facts: c.now, Namespace: namespace, Bare: w.Bare, Fits: c.fits}
	for i := range items {
		said := items[i].Said
		said.Unheeded, said.Unplanned = c.vain[&items[i]], c.unplanned[&items[i]]
		for _, f := range slices.Concat(rule.Objects(around, items[i].Object), rule.Server(said)) {
			f.File, f.Line = items[i].File, items[i].lineOf(f.Path)
			r.Findings = append(r.Findings, f)
		}
	}
	r.Quotas = c.quotas()
	r.Assumes = append(slices.Clone(r.Assumes), c.assumes...)
	if c.full.blind() {
		r.Assumes = append(r.Assumes, "nodes, or the pods on them, could not be read: nothing was planned, and only the objects themselves were looked at")
	}
	return r
}

// openBroken opens nodes with GPUs that DCGM shows to be broken and that are still advertised, where other schedulers than Berth look for
// a place for all of the pods: those do not heed it, and the kubelet may give the work a broken GPU.
func (c *checker) openBroken() {
	ours, others := oursOf(c.world.Model), ""
	for _, s := range c.subs {
		for _, p := range s.pods {
			if slices.Contains(ours, p.Spec.SchedulerName) {
				return
			}
			others = p.Spec.SchedulerName
		}
	}
	var names []string
	for i, n := range c.now.Nodes {
		if others == "" || len(v1alpha1.OfferedUnhealthy(n)) == 0 {
			continue
		}
		open := n.DeepCopy()
		delete(open.Annotations, v1alpha1.KeyUnhealthyGPUs)
		c.now.Nodes[i] = open
		names = append(names, n.Name)
	}
	if len(names) > 0 {
		slices.Sort(names)
		c.assumes = append(c.assumes, fmt.Sprintf("scheduler %s does not look at GPUs that DCGM shows to be broken, and may give the work one of node %s", others, wording.AtMost(3, names)))
	}
}

func newChecker(w World) *checker {
	return &checker{world: w, where: make(map[string]string), held: make(map[string]answer), never: make(map[string]answer), holders: make(map[string][]Holder), nodes: make(rule.Nodes), vain: make(map[*Item][]string), unplanned: make(map[*Item]string)}
}

// planner makes a planner that stops trying edits out when the time is up.
func (c *checker) planner(f *facts.Facts) *planner {
	p := newPlanner(f, c.world.Model)
	if p.late = c.world.Late; p.late != nil {
		p.why.Until(p.late)
	}
	return p
}

func (c *checker) late() bool { return c.world.Late != nil && c.world.Late() }

func (c *checker) caseOf(s *submission) *rule.Case {
	return &rule.Case{Reclaimed: reclaimed(s.result.Terms), Facts: c.now, Workload: s.Workload, Object: s.item.Object, Starts: s.result.Verdict == Starts, Cause: s.result.Cause, Refused: s.item.Refused != "", Matching: c.nodes, Bare: c.world.Bare}
}

// place has the engine plan all that waits, the manifests' pods among it.
func (c *checker) place() {
	if c.full.blind() {
		return
	}
	together := pending(c.now)
	var apart, all []*corev1.Pod
	for _, s := range c.subs {
		if !s.unplanned() {
			all = append(all, s.pods...)
		}
	}
	c.over = overQuota(c.now.ResourceQuotas, all)
	gangs := c.heldGangs(all, c.over)
	for _, s := range c.subs {
		if s.unplanned() {
			continue
		}
		claim := slices.ContainsFunc(s.pods, claimsDevices)
		for _, p := range s.pods {
			gang := c.now.GangOf(p)
			if c.over[keyOf(p)] != nil || c.refusedByNode(s, p) || gang != "" && gangs[gang] {
				continue
			}
			if claim || minds(p) && c.now.GangOf(p) == "" {
				apart = append(apart, p)
			} else {
				together = append(together, p)
			}
		}
	}
	c.full.set(together)
	c.plan = c.full.model.Plan(c.now.At)
	c.index()
	c.full.next(slices.Concat(apart, c.full.unruled(&c.plan, together)), together, c.where)
	for _, s := range c.subs {
		c.outcome(s)
	}
	c.estimate(together)
	c.unheeded()
	c.full.unset(together) // a diagnosis wants a model without what waits
	c.full.unset(apart)
}

// index finds what the plan says of a workload.
func (c *checker) index() {
	c.borrowed, c.waiting, c.evicting = make(map[string]engine.Resources), make(map[string]*engine.Waiting), make(map[string][]string)
	for i := range c.plan.Starts {
		start := &c.plan.Starts[i]
		c.borrowed[start.Gang] = c.borrowed[start.Gang].Plus(start.Borrowed)
		for _, at := range start.Placements {
			c.where[at.Pod] = at.Node
		}
	}
	for i := range c.plan.Waiting {
		c.waiting[c.plan.Waiting[i].Gang] = &c.plan.Waiting[i]
	}
	for _, e := range c.plan.Evictions {
		c.evicting[e.For] = append(c.evicting[e.For], e.Pod)
	}
}

// outcome notes what the plan says of the workload.
func (c *checker) outcome(s *submission) {
	if len(s.pods) == 0 || s.unplanned() {
		return
	}
	r := &s.result
	r.Nodes, r.Terms = c.nodesOf(s), c.terms(s)
	if s.placed, s.enough = c.placed(s); !s.enough {
		c.waitsFor(s)
	}
}
