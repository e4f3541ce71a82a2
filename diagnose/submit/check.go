package submit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/diagnose/submit/rule"
	"github.com/berth-dev/berth/diagnose/submit/workload"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
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
	waits  Workload      // what the plan has it wait for
	result Workload
}

// checker is one check.
type checker struct {
	world   World
	uids    int
	assumes []string
	now     *facts.Facts // with the manifests
	subs    []*submission
	full    *planner
	// alone is the same cluster without other work; made when it is first asked for
	alone *planner
	plan  engine.Plan
	where map[string]string // node, by pod, of all that starts
	byKey map[string]*corev1.Pod
}

// Check says what will become of the manifests, submitted together and now.
func Check(w World, namespace string, items []Item) Report {
	c := &checker{world: w, where: make(map[string]string)}
	r := Report{APIVersion: diagnose.APIVersion, Kind: Kind, At: w.Facts.At, Against: w.Against, Assumes: w.Assumes, Unseen: slices.Clone(w.Facts.Unseen)}
	objects := c.read(namespace, items)
	c.now = with(w.Facts, objects)
	c.full = newPlanner(c.now, w.Model)
	c.place()
	for _, s := range c.subs {
		c.judge(s)
		s.result.Findings = rule.Find(c.caseOf(s))
		for i := range s.result.Findings {
			f := &s.result.Findings[i]
			f.File, f.Line = s.item.File, s.item.lineOf(f.Path)
		}
		r.Workloads = append(r.Workloads, s.result)
	}
	for i := range items {
		for _, f := range rule.Objects(items[i].Object) {
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

func (c *checker) caseOf(s *submission) *rule.Case {
	return &rule.Case{Facts: c.now, Workload: s.Workload, Object: s.item.Object, Starts: s.result.Verdict == Starts, Cause: s.result.Cause, Refused: s.item.Refused != ""}
}

// read makes workloads of the manifests, and returns all objects that they add to the facts.
func (c *checker) read(namespace string, items []Item) []facts.Object {
	uid := func() types.UID {
		c.uids++
		return types.UID(fmt.Sprintf("submitted-%d", c.uids))
	}
	left := workload.MostInAll
	o := workload.Options{At: c.world.Facts.At, Namespace: namespace, Nodes: c.world.Facts.Nodes, UID: uid, Budget: &left}
	var objects []facts.Object
	for i := range items {
		item := &items[i]
		w, object, err := workload.Of(item.Object, o)
		switch {
		case err != nil:
			c.subs = append(c.subs, &submission{item: item, Workload: &workload.Workload{Ref: refOf(item.Object, namespace)}, result: Workload{
				Verdict: Never, Cause: Invalid, Owner: check.User, Layer: check.L4, Summary: err.Error(),
			}})
		case w == nil && item.Refused != "":
			c.subs = append(c.subs, &submission{item: item, Workload: &workload.Workload{Ref: facts.RefTo(object)}})
		case w == nil:
			objects = append(objects, object)
			if claim, ok := object.(*corev1.PersistentVolumeClaim); ok {
				claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
			}
		default:
			s := &submission{item: item, Workload: w}
			c.subs = append(c.subs, s)
		}
	}
	defaults := with(c.world.Facts, objects) // classes and ranges that are in the manifests themselves count
	if c.world.Bare {
		assumed, said := c.assume(defaults)
		objects, c.assumes = append(objects, assumed...), said
		defaults = with(c.world.Facts, objects)
	}
	for _, o := range objects {
		workload.FillClass(o, defaults)
	}
	for _, s := range c.subs {
		for i := range s.Parts {
			c.admit(s, &s.Parts[i], defaults)
			s.pods = append(s.pods, s.Parts[i].Pods...)
		}
		if s.Object != nil {
			for _, o := range objectsOf(s.Workload) {
				workload.FillClass(o, defaults)
				objects = append(objects, o)
			}
		}
	}
	return objects
}

func refOf(object map[string]any, namespace string) facts.Ref {
	r := facts.Ref{Namespace: namespace}
	r.Kind, _ = object["kind"].(string)
	if meta, ok := object["metadata"].(map[string]any); ok {
		r.Name, _ = meta["name"].(string)
		if n, ok := meta["namespace"].(string); ok {
			r.Namespace = n
		}
	}
	return r
}

// admit gives the part's pods, and the template of their maker, what the API server would give them.
func (c *checker) admit(s *submission, p *workload.Part, f *facts.Facts) {
	like := s.item.Admitted[p.Template]
	fill := func(pod *corev1.Pod) {
		if like != nil {
			asAdmitted(pod, like)
			return
		}
		workload.Fill(pod, f)
		if c.world.Bare {
			workload.TolerateDevices(pod)
		} else {
			f.Admit(pod)
		}
	}
	for _, pod := range p.Pods {
		fill(pod)
	}
	if t := facts.TemplateOf(p.Maker); t != nil && len(p.Pods) > 0 {
		filled := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
		filled.Namespace = s.Ref.Namespace
		fill(filled)
		t.Spec, t.Labels, t.Annotations = filled.Spec, filled.Labels, filled.Annotations
	}
}

// asAdmitted takes from a pod that was admitted in dry run what webhooks and admission put there, and leaves what is of the
// pod's own number: where a DaemonSet pins it, and the volumes of its ordinal.
func asAdmitted(p, like *corev1.Pod) {
	spec := *like.Spec.DeepCopy()
	spec.NodeName, spec.Hostname = p.Spec.NodeName, p.Spec.Hostname
	if p.Spec.Affinity != nil && p.Spec.Affinity.NodeAffinity != nil {
		spec.Affinity = p.Spec.Affinity
	}
	own := p.Spec.Volumes
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool {
		return slices.ContainsFunc(own, func(o corev1.Volume) bool { return o.Name == v.Name })
	})
	spec.Volumes = append(slices.Clone(own), spec.Volumes...)
	p.Spec = spec
	for key, value := range like.Labels {
		if _, ok := p.Labels[key]; !ok {
			if p.Labels == nil {
				p.Labels = make(map[string]string)
			}
			p.Labels[key] = value
		}
	}
	for key, value := range like.Annotations {
		if _, ok := p.Annotations[key]; !ok {
			if p.Annotations == nil {
				p.Annotations = make(map[string]string)
			}
			p.Annotations[key] = value
		}
	}
}

// place has the engine plan all that waits, the manifests' pods among it.
func (c *checker) place() {
	if c.full.blind() {
		return
	}
	together := pending(c.now)
	var apart []*corev1.Pod
	for _, s := range c.subs {
		if s.item.Refused != "" {
			continue
		}
		for _, p := range s.pods {
			if minds(p) && c.now.GangOf(p) == "" {
				apart = append(apart, p)
			} else {
				together = append(together, p)
			}
		}
	}
	c.full.set(together)
	c.plan = c.full.model.Plan(c.now.At)
	for _, start := range c.plan.Starts {
		for _, at := range start.Placements {
			c.where[at.Pod] = at.Node
		}
	}
	c.full.next(apart, together, c.where)
	for _, s := range c.subs {
		c.outcome(s)
	}
	c.full.unset(together) // a diagnosis wants a model without what waits
	c.full.unset(apart)
}

// outcome notes what the plan says of the workload.
func (c *checker) outcome(s *submission) {
	if len(s.pods) == 0 || s.item.Refused != "" {
		return
	}
	r := &s.result
	r.Nodes, r.Terms = c.nodes(s), c.terms(s)
	if s.placed, s.enough = c.placed(s); !s.enough {
		c.waitsFor(s)
	}
}

// worst is the diagnosis of the first part of the workload that something is in the way of, or of the first.
func (c *checker) worst(p *planner, s *submission) (out diagnose.Diagnosis, part string, ok bool) {
	seen := make(map[string]bool)
	for i := range s.Parts {
		at := &s.Parts[i]
		if len(at.Pods) == 0 || seen[at.Template] {
			continue // Jobs of one template are all alike
		}
		seen[at.Template] = true
		d, err := p.ask(s, at)
		if err != nil {
			continue
		}
		if !ok || blocks(&d) {
			out, part, ok = d, at.Name, true
		}
		if blocks(&d) {
			break
		}
	}
	return out, part, ok
}

func blocks(d *diagnose.Diagnosis) bool { return d.Layer != check.None || d.Cause == diagnose.Unknown }

// ask diagnoses the pods of a part, which do not exist.
func (p *planner) ask(s *submission, at *workload.Part) (diagnose.Diagnosis, error) {
	target := at.Maker
	if at.Above != nil && len(s.Parts) == 1 && facts.KindOfObject(at.Above) != nil && !facts.KindOfObject(at.Above).Foreign {
		target = at.Above
	}
	d, err := p.why.Why(facts.RefTo(target))
	if err != nil {
		return d, err
	}
	d.Summary = s.named(d.Summary, target)
	for i := range d.Fixes {
		d.Fixes[i].Edit, d.Fixes[i].Outcome = s.named(d.Fixes[i].Edit, target), s.named(d.Fixes[i].Outcome, target)
	}
	return d, nil
}

// named has a sentence speak of the workload where it speaks of what stands for it.
func (s *submission) named(text string, target facts.Object) string {
	return strings.ReplaceAll(text, facts.RefTo(target).String(), s.Ref.String())
}

// fill takes a diagnosis over.
func (s *submission) fill(r *Workload, d diagnose.Diagnosis) {
	r.Cause, r.Layer, r.Owner, r.Summary, r.ETA = d.Cause, d.Layer, d.Owner, d.Summary, d.ETA
	r.Fixes = nil
	for _, f := range d.Fixes {
		fix := Fix{Side: f.Side, Edit: f.Edit, Command: f.Command, Assumes: f.Assumes, Outcome: f.Outcome, Verified: f.Verified}
		if ops := s.inFile(f.Patch); ops != nil {
			fix.Patch, fix.Command = ops, ""
		} else if f.Side == edit.Workload {
			fix.Command = "" // it is about an object that does not exist yet
		}
		r.Fixes = append(r.Fixes, fix)
	}
	if len(r.Fixes) == 0 && d.Advice != "" {
		r.Fixes = []Fix{{Side: "", Edit: d.Advice}}
	}
}

// inFile are the operations on pods as ones on the object in the file; nil where they are about other objects too.
func (s *submission) inFile(patches []diagnose.Patch) []edit.Op {
	var out []edit.Op
	for _, p := range patches {
		i := slices.IndexFunc(s.Parts, func(at workload.Part) bool {
			return facts.RefTo(at.Maker) == p.On || at.Above != nil && facts.RefTo(at.Above) == p.On && len(s.Parts) == 1
		})
		if i < 0 {
			return nil
		}
		for _, op := range p.Ops {
			op.Path = s.Parts[i].Template + op.Path
			out = append(out, slim(s.item.Object, op)...)
		}
	}
	return out
}

// judge decides what becomes of the workload.
func (c *checker) judge(s *submission) {
	r := &s.result
	r.Target, r.File, r.Line = s.Ref, s.item.File, s.item.Line
	for i := range s.Parts {
		r.Pods += s.Parts[i].Wanted
		if len(s.Parts[i].Pods) > 0 {
			r.GPUs += int64(s.Parts[i].Wanted) * gpusOf(s.Parts[i].Pods[0])
		}
	}
	switch {
	case r.Cause == Invalid:
	case s.item.Refused != "":
		r.Verdict, r.Cause, r.Owner, r.Layer = Never, Refused, refusedOwner(s.item.RefusedBy), check.L3
		r.Summary = s.item.Refused
		r.Fixes, r.ETA = nil, nil
	case s.Idle != "":
		r.Verdict, r.Summary = Idle, s.Idle
		if _, ds := s.Object.(*appsv1.DaemonSet); ds && len(c.now.Nodes) > 0 {
			r.Verdict, r.Cause, r.Layer, r.Owner, r.Summary = Never, why.NoMatchingNode, check.L3, check.User, "no node matches what its pods ask of one, so there will be none"
		}
	case c.full.blind():
		r.Verdict, r.Summary = Starts, "nothing is in its way that can be seen; nodes and their pods cannot be"
		if d, part, ok := c.worst(c.full, s); ok && blocks(&d) {
			r.Verdict, r.Part = Never, part
			s.fill(r, d)
		}
	default:
		c.decide(s)
	}
}

func refusedOwner(by string) check.Owner {
	switch by {
	case "quota":
		return check.Scheduler
	case "policy", "webhook":
		return check.Policy
	case "rights":
		return check.Platform
	}
	return check.User
}

// decide is about a workload that was planned. What the plan starts may still not be admitted, or not run: diagnose knows. What
// it does not start is looked at on the cluster without other work.
func (c *checker) decide(s *submission) {
	r := &s.result
	held := Workload{}
	if s.enough {
		d, part, ok := c.worst(c.full, s)
		if !ok || !blocks(&d) {
			r.Verdict, r.Summary = Starts, startsText(r, s.placed)
			return
		}
		held.Part = part
		s.fill(&held, d)
	}
	if c.neverStarts(s) {
		r.Verdict, r.Nodes = Never, nil
		c.verify(s)
		return
	}
	r.Verdict = Waits
	if s.enough { // it has a place, and something else holds it up that ends
		r.Cause, r.Layer, r.Owner, r.Summary, r.Part, r.ETA = held.Cause, held.Layer, held.Owner, held.Summary, held.Part, held.ETA
	} else {
		r.Cause, r.Layer, r.Owner, r.Summary = s.waits.Cause, s.waits.Layer, s.waits.Owner, s.waits.Summary
		r.For, r.ETA = s.waits.For, s.waits.ETA
	}
	if s.placed > 0 && !s.enough {
		r.Summary = fmt.Sprintf("%d of %d pods start now; for the others: %s", s.placed, r.Pods, r.Summary)
	}
	if s.placed == 0 || s.enough {
		r.Nodes = nil
	}
}

// placed is how many of the workload's pods the plan starts, and whether that is what it needs to run: all, or for members
// of a gang the minimum, which the plan starts at least or not at all.
func (c *checker) placed(s *submission) (n int, enough bool) {
	gangs := false
	for _, p := range s.pods {
		if c.where[keyOf(p)] != "" {
			n++
		}
		gangs = gangs || c.now.GangOf(p) != ""
	}
	want := 0
	for i := range s.Parts {
		want += len(s.Parts[i].Pods)
	}
	return n, n == want || gangs && n > 0 && c.allPartsBegin(s)
}

// allPartsBegin says whether every part has a pod that starts.
func (c *checker) allPartsBegin(s *submission) bool {
	for i := range s.Parts {
		if len(s.Parts[i].Pods) > 0 && !slices.ContainsFunc(s.Parts[i].Pods, func(p *corev1.Pod) bool { return c.where[keyOf(p)] != "" }) {
			return false
		}
	}
	return true
}

func (c *checker) nodes(s *submission) []NodePods {
	count := make(map[string]int)
	for _, p := range s.pods {
		if n := c.where[keyOf(p)]; n != "" {
			count[n]++
		}
	}
	var out []NodePods
	for _, n := range slices.Sorted(maps.Keys(count)) {
		out = append(out, NodePods{Node: n, Pods: count[n]})
	}
	return out
}

func (c *checker) terms(s *submission) *Terms {
	if len(s.pods) == 0 {
		return nil
	}
	p := s.pods[0]
	t := &Terms{Scheduler: p.Spec.SchedulerName, Queue: c.full.model.QueueOf(keyOf(p)), Priority: ptr.Deref(p.Spec.Priority, 0), Preemptible: true}
	if value, _ := c.now.Inherited(p, v1alpha1.KeyPreemptible); value == "false" {
		t.Preemptible = false
	}
	mine := make(map[string]bool)
	for _, p := range s.pods {
		mine[c.full.model.WorkloadOf(keyOf(p))] = true
	}
	for _, start := range c.plan.Starts {
		if !mine[start.Gang] {
			continue
		}
		for _, a := range start.Borrowed {
			if t.Borrowed == nil {
				t.Borrowed = make(map[string]int64)
			}
			t.Borrowed[a.Resource] += a.Value
		}
	}
	for _, e := range c.plan.Evictions {
		if mine[e.For] {
			t.Evicts = append(t.Evicts, e.Pod)
		}
	}
	return t
}

func gpusOf(p *corev1.Pod) int64 {
	n := int64(0)
	for name, q := range podspec.Requests(p) {
		if strings.HasSuffix(string(name), "/gpu") || strings.Contains(string(name), "/mig-") {
			n += q.Value()
		}
	}
	return n
}

func startsText(r *Workload, placed int) string {
	text := "starts now"
	switch {
	case placed < r.Pods:
		text = fmt.Sprintf("starts now with %d of its %d pods", placed, r.Pods)
	}
	switch len(r.Nodes) {
	case 0:
	case 1:
		text += " on node " + r.Nodes[0].Node
	default:
		var names []string
		for _, n := range r.Nodes {
			names = append(names, n.Node)
		}
		text += fmt.Sprintf(" on %d nodes: %s", len(names), wording.AtMost(4, names))
	}
	return text + termsText(r.Terms)
}

// termsText is the terms in words.
func termsText(t *Terms) string {
	if t == nil {
		return ""
	}
	var out []string
	switch {
	case len(t.Borrowed) > 0:
		var all []string
		for _, name := range slices.Sorted(maps.Keys(t.Borrowed)) {
			all = append(all, fmt.Sprintf("%d %s", t.Borrowed[name], name))
		}
		out = append(out, fmt.Sprintf("beyond the quota of queue %s: %s are borrowed and may be reclaimed", t.Queue, strings.Join(all, ", ")))
	case t.Queue != "":
		out = append(out, "within the quota of queue "+t.Queue)
	}
	if len(t.Evicts) > 0 {
		out = append(out, wording.Pods(len(t.Evicts))+" evicted for it")
	}
	if len(out) == 0 {
		return ""
	}
	return ", " + strings.Join(out, ", ")
}

// neverStarts says whether the workload would not start on the cluster without other work either. It takes over what is in
// the way there, with its fixes.
func (c *checker) neverStarts(s *submission) bool {
	if c.alone == nil {
		if c.alone = c.full; !c.world.Bare {
			c.alone = newPlanner(emptied(c.now), c.world.Model)
		}
	}
	d, part, ok := c.worst(c.alone, s)
	if ok && blocks(&d) {
		s.result.Part = part
		s.fill(&s.result, d)
		return true
	}
	n := c.tryAlone(s.pods)
	if c.suffices(s, n) {
		return false
	}
	r := &s.result
	r.Cause, r.Layer, r.Owner, r.Fixes, r.Part = why.ClusterFull, check.L1, check.Capacity, nil, ""
	r.Summary = fmt.Sprintf("at most %d of its %d pods fit at once, even if nothing else ran", n, len(s.pods))
	return true
}

// suffices says whether the workload does what it should with n pods at a time: all of them, of a gang the minimum, which starts
// at least or not at all, and of a Job any, which run one after the other.
func (c *checker) suffices(s *submission, n int) bool {
	switch {
	case n >= len(s.pods):
		return true
	case n == 0:
		return false
	case slices.ContainsFunc(s.pods, func(p *corev1.Pod) bool { return c.now.GangOf(p) != "" }):
		return true
	}
	return !slices.ContainsFunc(s.Parts, func(p workload.Part) bool {
		_, job := p.Maker.(*batchv1.Job)
		_, foreign := p.Above.(*unstructured.Unstructured)
		return !job || foreign
	})
}

// tryAlone is how many of the pods start at once on the cluster without other work.
func (c *checker) tryAlone(pods []*corev1.Pod) (n int) {
	alone := c.alone
	alone.set(pods)
	defer alone.unset(pods)
	mine := make(map[string]bool, len(pods))
	for _, p := range pods {
		mine[keyOf(p)] = true
	}
	for _, s := range alone.model.Plan(c.now.At).Starts {
		for _, at := range s.Placements {
			if mine[at.Pod] {
				n++
			}
		}
	}
	gang := func(p *corev1.Pod) bool { return c.now.GangOf(p) != "" }
	if n == 0 || !slices.ContainsFunc(pods, minds) || slices.ContainsFunc(pods, gang) {
		return n
	}
	return alone.oneByOne(pods)
}

// waitsFor notes what the plan has the workload wait for.
func (c *checker) waitsFor(s *submission) {
	r := &s.waits
	var first *corev1.Pod
	for _, p := range s.pods {
		if c.where[keyOf(p)] == "" {
			first = p
			break
		}
	}
	if first == nil {
		return
	}
	for _, w := range c.plan.Waiting {
		if w.Gang == c.full.model.WorkloadOf(keyOf(first)) && len(w.Gates) > 0 {
			r.Cause, r.Layer, r.Owner = w.Cause, check.L3, check.Scheduler
			r.Summary = clauses(w.Gates[0].Sentence(c.plan.Certificates), 2)
		}
	}
	if r.Summary == "" {
		r.Cause, r.Layer, r.Owner = cmp.Or(r.Cause, why.ClusterFull), check.L3, check.Scheduler
		r.Summary = "there is no room for it beside what runs and waits"
	}
	if device, n := podspec.Device(first); n > 0 {
		for _, h := range c.full.model.Holders(keyOf(first), device, c.now.At) {
			r.For = append(r.For, Holder{Workload: h.Workload, Resource: device, Amount: h.Amount})
		}
		r.For = append(r.For, c.before(first, device)...)
		r.For = r.For[:min(len(r.For), 5)]
	}
	if e, ok := c.full.model.Estimate(keyOf(first), c.now.At); ok {
		r.ETA = &facts.ETA{Earliest: e.Earliest, Likely: e.Likely, Because: e.Because}
	}
}

// before is who starts now, before the pod, on nodes that it could use: most first.
func (c *checker) before(p *corev1.Pod, device string) []Holder {
	sums := make(map[string]int64)
	for _, start := range c.plan.Starts {
		for _, at := range start.Placements {
			n := c.now.NodeNamed(at.Node)
			if n == nil || !podspec.Suits(p, n) {
				continue
			}
			if q := c.podNamed(at.Pod); q != nil {
				sums[start.Gang] += podspec.Requested(q, device)
			}
		}
	}
	var out []Holder
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		if sums[key] > 0 {
			out = append(out, Holder{Workload: key, Resource: device, Amount: sums[key], Starts: true})
		}
	}
	slices.SortStableFunc(out, func(a, b Holder) int { return cmp.Compare(b.Amount, a.Amount) })
	return out
}

// podNamed is a pod that waits, of the manifests or of the cluster, by namespace/name.
func (c *checker) podNamed(key string) *corev1.Pod {
	if c.byKey == nil {
		c.byKey = make(map[string]*corev1.Pod)
		for _, s := range c.subs {
			for _, p := range s.pods {
				c.byKey[keyOf(p)] = p
			}
		}
	}
	if p := c.byKey[key]; p != nil {
		return p
	}
	namespace, name, _ := strings.Cut(key, "/")
	return c.now.PodNamed(namespace, name)
}

// clauses are the first parts of a sentence that has many.
func clauses(sentence string, n int) string {
	parts := strings.Split(sentence, "; ")
	return strings.Join(parts[:min(n, len(parts))], "; ")
}

// mostVerified bounds the changed manifests that are planned for one workload.
const mostVerified = 3

// verify plans the manifest as each fix would make it, and drops those after which it still cannot start.
func (c *checker) verify(s *submission) {
	var out []Fix
	tried := 0
	for _, f := range s.result.Fixes {
		if f.Patch == nil {
			f.Then = Waits
			out = append(out, f)
			continue
		}
		if tried++; tried > mostVerified {
			break
		}
		if then, outcome, ok := c.after(s, f.Patch); ok {
			f.Verified, f.Then, f.Outcome = true, then, outcome
			out = append(out, f)
		}
	}
	s.result.Fixes = out
}

// after is what becomes of the workload once the operations are done to its manifest; false: it cannot start then either,
// or they cannot be done.
func (c *checker) after(s *submission, ops []edit.Op) (then Verdict, outcome string, ok bool) {
	object, err := edit.PatchTree(s.item.Object, ops)
	if err != nil {
		return "", "", false
	}
	uid := func() types.UID {
		c.uids++
		return types.UID(fmt.Sprintf("submitted-%d", c.uids))
	}
	w, _, err := workload.Of(object, workload.Options{At: c.now.At, Namespace: s.Ref.Namespace, Nodes: c.now.Nodes, UID: uid})
	if err != nil || w == nil {
		return "", "", false
	}
	changed := &submission{item: &Item{Object: object}, Workload: w}
	for i := range w.Parts {
		c.admit(changed, &w.Parts[i], c.now)
		changed.pods = append(changed.pods, w.Parts[i].Pods...)
	}
	was, is := metaOf(objectsOf(s.Workload)), metaOf(objectsOf(w))
	c.alone.model.Delete(was...)
	c.alone.model.Set(is...)
	starts := c.suffices(changed, c.tryAlone(changed.pods))
	c.alone.model.Delete(is...)
	c.alone.model.Set(was...)
	if !starts {
		return "", "", false
	}
	return c.beside(s, changed)
}

// beside plans the changed workload in the place of the one that was given, beside everything else.
func (c *checker) beside(s, changed *submission) (Verdict, string, bool) {
	was, is := metaOf(objectsOf(s.Workload)), metaOf(objectsOf(changed.Workload))
	others := pending(c.now)
	for _, o := range c.subs {
		if o != s && o.item.Refused == "" {
			others = append(others, o.pods...)
		}
	}
	c.full.model.Delete(was...)
	c.full.model.Set(is...)
	c.full.set(others)
	c.full.set(changed.pods)
	defer func() {
		c.full.unset(changed.pods)
		c.full.unset(others)
		c.full.model.Delete(is...)
		c.full.model.Set(was...)
	}()
	plan := c.full.model.Plan(c.now.At)
	mine := make(map[string]bool)
	for _, p := range changed.pods {
		mine[keyOf(p)] = true
	}
	n := 0
	nodes := make(map[string]int)
	for _, start := range plan.Starts {
		for _, at := range start.Placements {
			if mine[at.Pod] {
				n++
				nodes[at.Node]++
			}
		}
	}
	if n == 0 || n < len(mine) && c.now.GangOf(changed.pods[0]) == "" {
		return Waits, "it waits for others to end", true
	}
	names := slices.Sorted(maps.Keys(nodes))
	if len(names) == 1 {
		return Starts, "starts now on node " + names[0], true
	}
	return Starts, fmt.Sprintf("starts now on %d nodes", len(names)), true
}

func metaOf(objects []facts.Object) []metav1.Object {
	out := make([]metav1.Object, len(objects))
	for i, o := range objects {
		out[i] = o
	}
	return out
}
