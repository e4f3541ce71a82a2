package place

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/convert"
)

// Toleration adds tolerations of the taints to the workload.
func Toleration(c *check.Case, taints ...corev1.Taint) edit.Edit {
	var list []corev1.Toleration
	var texts []string
	for _, t := range taints {
		texts = append(texts, podspec.TaintText(t))
		list = append(list, tolerationFor(t))
	}
	e := edit.Edit{Side: edit.Workload, Cost: edit.CostWord, Text: "add a toleration for " + strings.Join(texts, " and "), Assumes: TermsOf(taints)}
	if e.Assumes != "" {
		e.Cost = edit.CostConsent
	}
	if len(Written(c).Spec.Tolerations) == 0 {
		e.Ops = []edit.Op{{Op: "add", Path: "/spec/tolerations", Value: slices.Concat(ownTolerations(c), list)}}
		return e
	}
	for _, t := range list {
		e.Ops = append(e.Ops, edit.Op{Op: "add", Path: "/spec/tolerations/-", Value: t})
	}
	return e
}

func tolerationFor(t corev1.Taint) corev1.Toleration {
	if strings.Contains(t.Key, "/") || t.Value == "" {
		return corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpExists, Effect: t.Effect}
	}
	return corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual, Value: t.Value, Effect: t.Effect}
}

// ownTolerations are those of the pod that the API server does not give to every pod.
func ownTolerations(c *check.Case) []corev1.Toleration {
	return slices.DeleteFunc(slices.Clone(c.Pod.Spec.Tolerations), func(t corev1.Toleration) bool {
		return t.TolerationSeconds != nil && (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable)
	})
}

// AffinityPath is where a pod has its required node affinity, as a JSON pointer.
const AffinityPath = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"

// AsksIn says whether the need is the workload's own word: what others added to the pod cannot be changed there.
func AsksIn(c *check.Case, n Need) bool {
	s := &Written(c).Spec
	if n.Term < 0 {
		v, ok := s.NodeSelector[n.Key]
		return ok && v == n.Values[0]
	}
	all := Terms(s)
	return n.Term < len(all) && n.Expr < len(all[n.Term].MatchExpressions) && all[n.Term].MatchExpressions[n.Expr].Key == n.Key
}

// Renames has the workload ask for another label in place of the one of the need.
func Renames(c *check.Case, n Need, key, value string) (edit.Edit, bool) {
	if !AsksIn(c, n) {
		return edit.Edit{}, false
	}
	e := edit.Edit{Side: edit.Workload, Cost: edit.CostWord, Text: fmt.Sprintf("ask for %s=%s in place of %s", key, value, n.Text())}
	if key == n.Key && len(n.Values) > 0 && !slices.ContainsFunc(n.Values, func(v string) bool { return v == value || MeansSame(v, value) }) {
		e.Assumes = "the work can run on such nodes as well"
	}
	switch {
	case n.Term < 0 && key == n.Key:
		e.Ops = []edit.Op{{Op: "replace", Path: edit.Pointer("spec", "nodeSelector", key), Value: value}}
	case n.Term < 0:
		e.Ops = []edit.Op{{Op: "remove", Path: edit.Pointer("spec", "nodeSelector", n.Key)}, {Op: "add", Path: edit.Pointer("spec", "nodeSelector", key), Value: value}}
	default:
		at := fmt.Sprintf("%s/nodeSelectorTerms/%d/matchExpressions/%d", AffinityPath, n.Term, n.Expr)
		e.Ops = []edit.Op{{Op: "replace", Path: at, Value: corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}
	}
	return e, true
}

// Drops has the workload not ask for the label any more.
func Drops(c *check.Case, n Need) (edit.Edit, bool) {
	if !AsksIn(c, n) {
		return edit.Edit{}, false
	}
	e := edit.Edit{Side: edit.Workload, Cost: edit.CostSmall, Text: fmt.Sprintf("do not ask for %s", n.Text()), Assumes: "the work can run on other nodes as well"}
	if n.Term < 0 {
		e.Ops = []edit.Op{{Op: "remove", Path: edit.Pointer("spec", "nodeSelector", n.Key)}}
		return e, true
	}
	e.Ops = []edit.Op{WithoutExpression(c, n.Term, n.Expr)}
	return e, true
}

// WithoutExpression takes an expression away, and with the last one of a term the term: an empty one matches nothing.
func WithoutExpression(c *check.Case, term, expr int) edit.Op {
	all := Terms(&Written(c).Spec)
	switch {
	case len(all[term].MatchExpressions)+len(all[term].MatchFields) > 1:
		return edit.Op{Op: "remove", Path: fmt.Sprintf("%s/nodeSelectorTerms/%d/matchExpressions/%d", AffinityPath, term, expr)}
	case len(all) > 1:
		return edit.Op{Op: "remove", Path: fmt.Sprintf("%s/nodeSelectorTerms/%d", AffinityPath, term)}
	}
	return edit.Op{Op: "remove", Path: AffinityPath}
}

// AsksLess lowers what the pod asks for: what it asks as a whole, else what one container asks of each resource. It is false where
// several containers share a resource, or ask for more than the whole would.
func AsksLess(c *check.Case, to map[string]int64) (edit.Edit, bool) {
	e := edit.Edit{Side: edit.Workload, Cost: edit.CostLess}
	var texts []string
	var whole *corev1.ResourceRequirements
	changed := make(map[string]*corev1.ResourceRequirements) // by path
	for _, name := range slices.Sorted(maps.Keys(to)) {
		if was, ok := asWhole(c.Pod, corev1.ResourceName(name)); ok {
			q := podspec.Quantity(name, to[name])
			if Written(c).Spec.Resources == nil || to[name] <= 0 || !partsFit(c.Pod, corev1.ResourceName(name), q) {
				return edit.Edit{}, false
			}
			if whole == nil {
				whole = Written(c).Spec.Resources.DeepCopy()
			}
			lower(whole, corev1.ResourceName(name), q)
			texts = append(texts, fmt.Sprintf("%s of the whole pod from %s to %s", name, &was, &q))
			continue
		}
		less, ok := lowered(c.Pod, corev1.ResourceName(name), to[name])
		if !ok {
			return edit.Edit{}, false
		}
		was, q := podspec.TotalRequests(c.Pod)[corev1.ResourceName(name)], podspec.Quantity(name, to[name])
		text := fmt.Sprintf("%s from %s to %s", name, &was, &q)
		for _, at := range less {
			written, list := Written(c).Spec.Containers, "containers"
			if at.init {
				written, list = Written(c).Spec.InitContainers, "initContainers"
			}
			if at.index >= len(written) {
				return edit.Edit{}, false
			}
			path := edit.Pointer("spec", list, strconv.Itoa(at.index), "resources")
			if changed[path] == nil {
				changed[path] = written[at.index].Resources.DeepCopy()
			}
			lower(changed[path], corev1.ResourceName(name), at.to)
			if asking(c.Pod, corev1.ResourceName(name)) > 1 {
				text += fmt.Sprintf(", in container %s to %s", written[at.index].Name, &at.to)
			}
		}
		texts = append(texts, text)
	}
	if whole != nil {
		e.Ops = append(e.Ops, edit.Op{Op: "replace", Path: "/spec/resources", Value: whole})
	}
	for _, path := range slices.Sorted(maps.Keys(changed)) {
		e.Ops = append(e.Ops, edit.Op{Op: "replace", Path: path, Value: changed[path]})
	}
	e.Text = "lower the request for " + strings.Join(texts, " and ")
	return e, true
}

// lessIn is a container that asks for less of a resource.
type lessIn struct {
	init  bool
	index int
	to    resource.Quantity
}

// lowered has the pod ask for no more than so much of the resource in all: the containers that ask for most of it give up what is too much.
// It is false where one of them would be left with nothing.
func lowered(p *corev1.Pod, name corev1.ResourceName, most int64) ([]lessIn, bool) {
	if most <= 0 {
		return nil, false
	}
	p = p.DeepCopy()
	var out []lessIn
	for range len(p.Spec.Containers) + len(p.Spec.InitContainers) {
		over := podspec.Requested(p, string(name)) - most
		if over <= 0 {
			break
		}
		best, ask := lessIn{}, int64(0)
		for _, init := range []bool{false, true} {
			list := p.Spec.Containers
			if init {
				list = p.Spec.InitContainers
			}
			for i := range list {
				q := list[i].Resources.Requests[name]
				v := podspec.Amount(string(name), q)
				if v <= ask || slices.ContainsFunc(out, func(o lessIn) bool { return o.init == init && o.index == i }) || !counts(p, init, i, name) {
					continue
				}
				best, ask = lessIn{init: init, index: i}, v
			}
		}
		if ask <= over {
			return nil, false
		}
		best.to = podspec.Quantity(string(name), ask-over)
		list := p.Spec.Containers
		if best.init {
			list = p.Spec.InitContainers
		}
		lower(&list[best.index].Resources, name, best.to)
		out = append(out, best)
	}
	return out, podspec.Requested(p, string(name)) <= most && len(out) > 0
}

// counts says whether the pod would ask for less of the resource if the container asked for none.
func counts(p *corev1.Pod, init bool, i int, name corev1.ResourceName) bool {
	less := p.DeepCopy()
	list := less.Spec.Containers
	if init {
		list = less.Spec.InitContainers
	}
	delete(list[i].Resources.Requests, name)
	delete(list[i].Resources.Limits, name)
	return podspec.Requested(less, string(name)) < podspec.Requested(p, string(name))
}

// asking is how many of the pod's containers ask for the resource.
func asking(p *corev1.Pod, name corev1.ResourceName) (n int) {
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if q := c.Resources.Requests[name]; !q.IsZero() {
			n++
		}
	}
	return n
}

// asWhole is what the pod requests of the resource for all its containers together; false where it leaves that to them.
func asWhole(p *corev1.Pod, name corev1.ResourceName) (resource.Quantity, bool) {
	if p.Spec.Resources == nil {
		return resource.Quantity{}, false
	}
	if q, ok := p.Spec.Resources.Requests[name]; ok {
		return q, true
	}
	q, ok := p.Spec.Resources.Limits[name]
	return q, ok
}

// partsFit says whether the containers ask for no more than the whole would: the API server refuses a pod that they outgrow.
func partsFit(p *corev1.Pod, name corev1.ResourceName, whole resource.Quantity) bool {
	parts := p.DeepCopy()
	parts.Spec.Resources, parts.Spec.Overhead = nil, nil
	sum := podspec.TotalRequests(parts)[name]
	return sum.Cmp(whole) <= 0
}

// lower sets the request, and of devices the limit, which is the same.
func lower(r *corev1.ResourceRequirements, name corev1.ResourceName, to resource.Quantity) {
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	r.Requests[name] = to
	if podspec.Extended(name) {
		if r.Limits == nil {
			r.Limits = corev1.ResourceList{}
		}
		r.Limits[name] = to
	}
}

// Splits has a Job run k times as many pods, each asking for one k-th of the device.
func Splits(c *check.Case, device string, ask, most int64) (edit.Edit, bool) {
	j, ok := c.Top.(*batchv1.Job)
	if !ok || most <= 0 || asking(c.Pod, corev1.ResourceName(device)) > 1 {
		return edit.Edit{}, false
	}
	k := (ask + most - 1) / most
	for k < ask && ask%k != 0 {
		k++
	}
	less, ok := AsksLess(c, map[string]int64{device: ask / k})
	if !ok || k < 2 {
		return edit.Edit{}, false
	}
	made, err := edit.Patched(c.Facts, c.Top, c.Pod, less.Ops, nil)
	if err != nil {
		return edit.Edit{}, false
	}
	e := edit.Edit{Side: edit.Workload, Cost: edit.CostSmall}
	was := ptr.Deref(j.Spec.Parallelism, 1)
	grown := []edit.Op{{Op: "add", Path: "/spec/parallelism", Value: was * int32(k)}}
	if j.Spec.Completions != nil {
		grown = append(grown, edit.Op{Op: "add", Path: "/spec/completions", Value: *j.Spec.Completions * int32(k)})
	}
	for i := range made {
		o := made[i].Now
		if _, ok := o.(*batchv1.Job); ok {
			if o, err = edit.Patch(o, "", grown); err != nil {
				return edit.Edit{}, false
			}
		}
		e.Set = append(e.Set, o)
	}
	e.Text = fmt.Sprintf("split each pod into %d: run %d pods with %d %s each", k, int64(was)*k, ask/k, device)
	ops := edit.RecreateJob(j)
	for _, op := range less.Ops {
		op.Path = "/spec/template" + op.Path
		ops = append(ops, op)
	}
	e.Command = fmt.Sprintf("kubectl get job %s -n %s -o json | kubectl patch --local -f - --type=json -p %s -o json | kubectl replace --force -f -", j.Name, j.Namespace, edit.QuoteOps(append(ops, grown...)))
	e.Assumes = "the program can run as more, smaller pods"
	return e, true
}

// namedPods are the pods in words, the first few by name.
func namedPods(pods []*corev1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Namespace+"/"+p.Name)
	}
	slices.Sort(out)
	if len(out) == 1 {
		return "pod " + out[0]
	}
	return "pods " + wording.AtMost(4, out)
}

// deleteLines are the commands that delete the pods, one per namespace, joined.
func deleteLines(pods []*corev1.Pod) string {
	by := make(map[string][]string)
	for _, p := range pods {
		by[p.Namespace] = append(by[p.Namespace], p.Name)
	}
	var out []string
	for _, ns := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[ns])
		out = append(out, "kubectl delete pod "+strings.Join(by[ns], " ")+" -n "+ns)
	}
	return strings.Join(out, " && ")
}

// objectsOf is the pods as what they are.
func objectsOf(pods []*corev1.Pod) []facts.Object {
	out := make([]facts.Object, len(pods))
	for i, p := range pods {
		out[i] = p
	}
	return out
}

// freed are pods which, gone, leave room for as many pods as lack it, each on a node of its own; nil where there are
// too few such. pick chooses among the pods of a node, in its order of preference.
func freed(c *check.Case, nodes []*check.NodeFit, lack int, pick func(*corev1.Pod) bool, order func(a, b *corev1.Pod) int) []*corev1.Pod {
	type set struct {
		pods   []*corev1.Pod
		weight int64
	}
	device, _ := podspec.Device(c.Pod)
	var sets []set
	for _, n := range nodes {
		var from []*corev1.Pod
		for _, p := range c.PodsOn(n.Name) {
			if pick(p) {
				from = append(from, p)
			}
		}
		slices.SortFunc(from, func(a, b *corev1.Pod) int {
			return cmp.Or(order(a, b), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		if few := fewest(from, n.Short); few != nil {
			s := set{pods: few}
			for _, p := range few {
				s.weight += podspec.Requested(p, device)
			}
			sets = append(sets, s)
		}
	}
	if len(sets) < lack {
		return nil
	}
	slices.SortStableFunc(sets, func(a, b set) int {
		return cmp.Or(cmp.Compare(len(a.pods), len(b.pods)), cmp.Compare(a.weight, b.weight))
	})
	var out []*corev1.Pod
	for _, s := range sets[:lack] {
		out = append(out, s.pods...)
	}
	return out
}

// mostLooked bounds the nodes that are looked at for pods to take away.
const mostLooked = 200

// Evicts takes pods of lower priority away.
func Evicts(c *check.Case, nodes []*check.NodeFit, lack int) (edit.Edit, bool) {
	mine := ptr.Deref(c.Pod.Spec.Priority, 0)
	lesser := func(p *corev1.Pod) bool {
		return ptr.Deref(p.Spec.Priority, 0) < mine && p.DeletionTimestamp == nil && !ByDaemonSet(p)
	}
	victims := freed(c, nodes[:min(len(nodes), mostLooked)], lack, lesser, func(a, b *corev1.Pod) int {
		return cmp.Compare(ptr.Deref(a.Spec.Priority, 0), ptr.Deref(b.Spec.Priority, 0))
	})
	if victims == nil {
		return edit.Edit{}, false
	}
	return edit.Edit{
		Side: edit.Cluster, Cost: edit.CostMove, Gone: objectsOf(victims), Command: deleteLines(victims),
		Text: fmt.Sprintf("evict %s, of lower priority", namedPods(victims)), Assumes: "what is freed is not given to other work first",
	}, true
}

// ByDaemonSet reports whether a DaemonSet owns the pod.
func ByDaemonSet(p *corev1.Pod) bool {
	by := metav1.GetControllerOfNoCopy(p)
	return by != nil && by.Kind == "DaemonSet"
}

// Waits is for others to end, where it is known when they do.
func Waits(c *check.Case, nodes []*check.NodeFit, lack int) (e edit.Edit, until time.Time, because string, ok bool) {
	ends := func(p *corev1.Pod) bool { at, _ := endOf(c.Facts, p); return !at.IsZero() }
	sooner := func(a, b *corev1.Pod) int {
		x, _ := endOf(c.Facts, a)
		y, _ := endOf(c.Facts, b)
		return x.Compare(y)
	}
	type room struct {
		at   time.Time
		pods []*corev1.Pod
	}
	var rooms []room
	for _, n := range nodes {
		var from []*corev1.Pod
		for _, p := range c.PodsOn(n.Name) {
			if ends(p) {
				from = append(from, p)
			}
		}
		slices.SortFunc(from, func(a, b *corev1.Pod) int { return cmp.Or(sooner(a, b), cmp.Compare(a.Name, b.Name)) })
		for i := range from {
			if covers(from[:i+1], n.Short) {
				at, _ := endOf(c.Facts, from[i])
				rooms = append(rooms, room{at, fewest(from[:i+1], n.Short)})
				break
			}
		}
	}
	if len(rooms) < lack || lack == 0 {
		return edit.Edit{}, time.Time{}, "", false
	}
	slices.SortStableFunc(rooms, func(a, b room) int { return a.at.Compare(b.at) })
	var gone []*corev1.Pod
	for _, r := range rooms[:lack] {
		gone = append(gone, r.pods...)
	}
	last := slices.MaxFunc(gone, sooner)
	until, how := endOf(c.Facts, last)
	end := "ends"
	if len(gone) > 1 {
		end = "have ended"
	}
	because = fmt.Sprintf("pod %s/%s %s", last.Namespace, last.Name, how)
	return edit.Edit{
		Side: edit.Workload, Cost: edit.CostWait, Gone: objectsOf(gone), Assumes: "what is freed is not given to other work first",
		Text: fmt.Sprintf("wait until %s, when %s %s", until.UTC().Format("15:04 MST"), namedPods(gone), end),
	}, until, because, true
}

// PoolOf is the node's pool, and the label that says so; "" where none does.
func PoolOf(n *corev1.Node) (key, pool string) {
	for _, k := range gpustack.PoolLabels {
		if v := n.Labels[k]; v != "" {
			return k, v
		}
	}
	return "", ""
}

// AddsNodes grows the pool of a node by copies of it.
func AddsNodes(c *check.Case, like *corev1.Node, n int) edit.Edit {
	key, pool := PoolOf(like)
	var set []facts.Object
	have := 0
	for _, other := range c.Nodes {
		if key != "" && other.Labels[key] == pool {
			have++
		}
	}
	if p := PoolNamed(c.Facts, pool); p != nil && key == v1alpha1.LabelPool {
		have = max(have, PoolSize(p)) // a node that has lost its label is one of them all the same
	}
	for i := range n {
		fresh := like.DeepCopy()
		fresh.Name = fmt.Sprintf("%s-new-%d", cmp.Or(pool, like.Name), i)
		fresh.UID = types.UID("new-" + fresh.Name)
		if fresh.Labels[corev1.LabelHostname] != "" {
			fresh.Labels[corev1.LabelHostname] = fresh.Name
		}
		set = append(set, fresh)
	}
	what := "1 node"
	if n > 1 {
		what = fmt.Sprintf("%d nodes", n)
	}
	e := edit.Edit{Side: edit.Cluster, Cost: edit.CostNodes, Set: set, Text: fmt.Sprintf("add %s like %s", what, like.Name), Assumes: "machines like it can be had"}
	if key != "" {
		e.Text = fmt.Sprintf("add %s to pool %s, which has %d", what, pool, have)
	}
	if key == v1alpha1.LabelPool && regexp.MustCompile(`^`+regexp.QuoteMeta(pool)+`-\d+$`).MatchString(like.Name) {
		e.Command = fmt.Sprintf("kubectl patch pool %s --type=merge -p '{\"spec\":{\"nodes\":%d}}'", pool, have+n)
	}
	return e
}

// Moves takes pods of those that are picked off a node to others that have room for them, so that this pod fits there.
// Only pods that a controller makes anew are moved.
func Moves(c *check.Case, nodes []*check.NodeFit, pick func(*corev1.Pod) bool) (edit.Edit, bool) {
	var best []*corev1.Pod
	var onto []*corev1.Node
	var off *check.NodeFit
	for _, n := range nodes[:min(len(nodes), 24)] {
		pods := movable(c, n.Name, pick)
		for _, few := range [][]*corev1.Pod{fewest(pods, n.Short), fewest(reversed(pods), n.Short)} {
			if few == nil || best != nil && len(few) >= len(best) {
				continue
			}
			if to := homesFor(c, few, n.Name); to != nil {
				best, onto, off = few, to, n
			}
		}
	}
	if best == nil {
		return edit.Edit{}, false
	}
	e := edit.Edit{
		Side: edit.Cluster, Cost: edit.CostMove, Gone: objectsOf(best),
		Command: fmt.Sprintf("kubectl cordon %s && %s && kubectl uncordon %s", off.Name, deleteLines(best), off.Name),
	}
	homes := make(map[string]bool)
	for i, p := range best {
		moved := p.DeepCopy()
		moved.Name, moved.UID, moved.Spec.NodeName = p.Name+"-moved", p.UID+"-moved", onto[i].Name
		e.Set = append(e.Set, moved)
		homes[onto[i].Name] = true
	}
	where := wording.AtMost(3, slices.Sorted(maps.Keys(homes)))
	e.Text = fmt.Sprintf("move %s from node %s to %s", namedPods(best), off.Name, where)
	e.Assumes = fmt.Sprintf("who made the pods makes them anew, and they land on %s", where)
	return e, true
}

func reversed(pods []*corev1.Pod) []*corev1.Pod {
	out := slices.Clone(pods)
	slices.Reverse(out)
	return out
}

// movable are the pods of a node that are picked and that a controller makes anew: those with most devices first.
func movable(c *check.Case, node string, pick func(*corev1.Pod) bool) []*corev1.Pod {
	device, _ := podspec.Device(c.Pod)
	var out []*corev1.Pod
	for _, p := range c.PodsOn(node) {
		if metav1.GetControllerOfNoCopy(p) != nil && !ByDaemonSet(p) && p.DeletionTimestamp == nil && c.GangOf(p) == "" && pick(p) {
			out = append(out, p) // one of a gang would take the others with it
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(podspec.Requested(b, device), podspec.Requested(a, device)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// homesFor finds nodes for pods that are to leave one; nil where one of them finds none. Each has to be allowed there by its
// own rules and by those of the pods that stay: node labels, taints, affinity, spread, volumes, devices and ports.
func homesFor(c *check.Case, pods []*corev1.Pod, leaving string) []*corev1.Node {
	free := make(map[string]corev1.ResourceList)
	var out []*corev1.Node
	nodes := slices.Clone(c.Nodes)
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	rest := c.Beside(nil)
	rest.Pods = slices.DeleteFunc(rest.Pods, func(p *corev1.Pod) bool { return slices.Contains(pods, p) })
	for _, p := range pods {
		asks := podspec.TotalRequests(p)
		asks[corev1.ResourcePods] = podspec.Quantity("pods", 1)
		fresh := anew(p)
		excluded := ReasonsByNode(Exclusions(rest, fresh))
		at := slices.IndexFunc(nodes, func(n *corev1.Node) bool {
			if n.Name == leaving || !podspec.Suits(p, n) || excluded[n.Name] != nil || !lets(rest, fresh, n) {
				return false
			}
			if free[n.Name] == nil {
				free[n.Name] = FreeOn(c.Facts, n)
			}
			return podspec.Fits(asks, free[n.Name])
		})
		if at < 0 {
			return nil
		}
		podspec.Subtract(free[nodes[at].Name], asks)
		fresh.Spec.NodeName = nodes[at].Name
		rest = rest.Beside([]*corev1.Pod{fresh})
		out = append(out, nodes[at])
	}
	return out
}

// anew is the pod as its controller makes it again: on no node.
func anew(p *corev1.Pod) *corev1.Pod {
	fresh := p.DeepCopy()
	fresh.Spec.NodeName, fresh.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
	return fresh
}

// lets says whether the pod's volumes can be used from the node, and the ports that it asks for are free there.
func lets(f *facts.Facts, p *corev1.Pod, n *corev1.Node) bool {
	for _, v := range VolumesOf(f, p) {
		if v.Own || !v.Bound() {
			continue // made anew with the pod, or where it goes
		}
		if pv := VolumeNamed(f, v.Claim.Spec.VolumeName); pv == nil || !convert.Reaches(pv, n) {
			return false
		}
	}
	ports := portsOf(p)
	for _, other := range f.PodsOn(n.Name) {
		if len(ports) > 0 && slices.ContainsFunc(portsOf(other), func(port corev1.ContainerPort) bool {
			return slices.ContainsFunc(ports, func(q corev1.ContainerPort) bool { return clash(port, q) })
		}) {
			return false
		}
	}
	return true
}

// portsOf are the node's ports that the pod's containers ask for.
func portsOf(p *corev1.Pod) (out []corev1.ContainerPort) {
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
			if port.HostPort > 0 {
				out = append(out, port)
			}
		}
	}
	return out
}

// clash says whether one node cannot have both ports.
func clash(a, b corev1.ContainerPort) bool {
	all := func(ip string) bool { return ip == "" || ip == "0.0.0.0" }
	return a.HostPort == b.HostPort && cmp.Or(a.Protocol, corev1.ProtocolTCP) == cmp.Or(b.Protocol, corev1.ProtocolTCP) && (a.HostIP == b.HostIP || all(a.HostIP) || all(b.HostIP))
}

// FreeOn is what pods leave of the node.
func FreeOn(f *facts.Facts, n *corev1.Node) corev1.ResourceList {
	out := n.Status.Allocatable.DeepCopy()
	for _, p := range f.PodsOn(n.Name) {
		asks := podspec.TotalRequests(p)
		asks[corev1.ResourcePods] = podspec.Quantity("pods", 1)
		podspec.Subtract(out, asks)
	}
	return out
}

// Elsewhere are edits that let the pod have nodes which have room now, and which one thing that it asks of labels keeps
// it off.
func Elsewhere(c *check.Case, f *check.Fit) []edit.Edit {
	type way struct {
		edit  edit.Edit
		nodes int
	}
	by := make(map[string]*way)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if len(n.Short) > 0 || len(n.ExcludedBy) > 0 || len(n.Removed) != 1 {
			continue
		}
		at, ok := oneUnmet(c, n.Node)
		if !ok {
			continue
		}
		var e edit.Edit
		if v := n.Labels[at.Key]; v != "" && len(at.Values) > 0 {
			e, ok = Renames(c, at, at.Key, v)
			e.Cost = edit.CostSmall
		} else {
			e, ok = Drops(c, at)
		}
		if ok && by[e.Text] == nil {
			by[e.Text] = &way{edit: e}
		}
		if ok {
			by[e.Text].nodes++
		}
	}
	ways := slices.SortedFunc(maps.Values(by), func(a, b *way) int {
		return cmp.Or(cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.edit.Text, b.edit.Text))
	})
	var out []edit.Edit
	for _, w := range ways[:min(len(ways), 3)] {
		out = append(out, w.edit)
	}
	return out
}

// oneUnmet is the one need that the node does not meet; false where there are several, or terms to choose from.
func oneUnmet(c *check.Case, n *corev1.Node) (Need, bool) {
	if len(Terms(&c.Pod.Spec)) > 1 {
		return Need{}, false
	}
	all := slices.DeleteFunc(NeedsOf(&c.Pod.Spec), func(x Need) bool { return x.Met(n.Labels) })
	if len(all) != 1 {
		return Need{}, false
	}
	return all[0], true
}

// LargerEmptyDir doubles the limit of a volume, which has that index among those that the pod's author wrote.
func LargerEmptyDir(i int, v *corev1.Volume) edit.Edit {
	double := v.EmptyDir.SizeLimit.DeepCopy()
	double.Add(*v.EmptyDir.SizeLimit)
	return edit.Edit{
		Side: edit.Workload, Cost: edit.CostSmall, Text: fmt.Sprintf("raise the sizeLimit of volume %s from %s to %s", v.Name, v.EmptyDir.SizeLimit, &double), Assumes: "twice as much is enough",
		Ops: []edit.Op{{Op: "replace", Path: edit.Pointer("spec", "volumes", fmt.Sprint(i), "emptyDir", "sizeLimit"), Value: double.String()}},
	}
}
