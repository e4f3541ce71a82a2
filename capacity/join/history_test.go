package join_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/bill"
	"github.com/berth-dev/berth/capacity/join"
	"github.com/berth-dev/berth/diagnose/doctor"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// cluster is one of Karpenter's as it is at a moment of a random history: Reservations, a Pool that selects nodes, NodeClaims, nodes and
// pods. Every machine has 8 GPUs. What changes has a new version.
type cluster struct {
	reservations []held
	pool         map[string]any // the Pool's spec
	machines     []*vm
	pods         map[string]*corev1.Pod
	version, ids int
	node         func(name string) // told of what became of a node
	pod          func(key string)  // and of a pod
}

// held is a reservation as it was bought.
type held struct {
	name       string
	spec       map[string]any
	start, end time.Time
	instances  int
	price      int64 // millionths for an instance and hour; 0: not known
}

func (h *held) paid(at time.Time) bool {
	return !at.Before(h.start) && at.Before(h.end)
}

// vm is a machine: a NodeClaim, and a node once it has registered.
type vm struct {
	id, claim string
	labels    map[string]string
	launched  time.Time
	node      *corev1.Node // nil: it has not registered
	again     *corev1.Node // an older Node object of it, under another name
}

const kindOfVM = "p5en.48xlarge"

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func drawCluster(t *rapid.T) *cluster {
	c := &cluster{pods: make(map[string]*corev1.Pod), version: 1}
	var names []string
	for i := range rapid.IntRange(0, 3).Draw(t, "reservations") {
		h := held{name: fmt.Sprint("r", i), instances: rapid.IntRange(0, 3).Draw(t, "instances")}
		h.start = now.Add(time.Duration(rapid.IntRange(-6, 12).Draw(t, "start")) * 10 * time.Minute)
		h.end = h.start.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "lasts")) * 10 * time.Minute)
		h.spec = map[string]any{
			"provider": "aws", "id": fmt.Sprint("cr-", i), "instanceType": rapid.SampledFrom([]string{kindOfVM, kindOfVM, "p4d.24xlarge"}).Draw(t, "type"), "zone": rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "zone"),
			"gpus": map[string]any{"model": "H200", "count": int64(8)}, "instances": int64(h.instances), "start": stamp(h.start), "end": stamp(h.end), "match": rapid.SampledFrom([]string{"open", "targeted"}).Draw(t, "match"),
		}
		if rapid.IntRange(0, 3).Draw(t, "priced") > 0 {
			h.price = rapid.Int64Range(1, 99_999_999).Draw(t, "price")
			h.spec["price"] = map[string]any{"perInstanceHour": capacity.Micro(h.price).Text()}
		}
		c.reservations = append(c.reservations, h)
		names = append(names, h.name)
	}
	c.pool = map[string]any{"selects": map[string]any{"nodePool": "gpu"}}
	var draws []any
	for _, name := range names {
		if rapid.Bool().Draw(t, "draws") {
			draws = append(draws, name)
		}
	}
	if draws != nil {
		c.pool["reservations"] = draws
	}
	if rapid.Bool().Draw(t, "pool priced") {
		c.pool["price"] = map[string]any{"perInstanceHour": "80"}
	}
	return c
}

func (c *cluster) next() string {
	c.version++
	return strconv.Itoa(c.version)
}

// live has one thing happen.
func (c *cluster) live(t *rapid.T, at time.Time) {
	if what := rapid.IntRange(0, 9).Draw(t, "what"); what < 3 || len(c.machines) == 0 {
		if len(c.machines) < 5 {
			c.launch(t, at)
		}
		return
	}
	i := rapid.IntRange(0, len(c.machines)-1).Draw(t, "machine")
	m := c.machines[i]
	if m.node == nil {
		if rapid.IntRange(0, 4).Draw(t, "lost") == 0 {
			c.machines = slices.Delete(c.machines, i, i+1)
			return
		}
		c.register(t, m, at)
		return
	}
	switch rapid.IntRange(0, 7).Draw(t, "change") {
	case 0: // it ends, and its pods with it, a little later
		c.machines = slices.Delete(c.machines, i, i+1)
		c.node(m.node.Name)
		for key, p := range c.pods {
			if p.Spec.NodeName == m.node.Name && rapid.Bool().Draw(t, "collected") {
				delete(c.pods, key)
				c.pod(key)
			}
		}
		return
	case 1:
		m.node.Spec.Unschedulable = !m.node.Spec.Unschedulable
	case 2:
		c := &m.node.Status.Conditions[0]
		if c.Status = corev1.ConditionTrue; rapid.Bool().Draw(t, "unready") {
			c.Status = corev1.ConditionUnknown
		}
		c.LastTransitionTime = metav1.NewTime(at)
	case 3:
		m.node.Status.Allocatable["nvidia.com/gpu"] = *resource.NewQuantity(rapid.Int64Range(0, 8).Draw(t, "well"), resource.DecimalSI)
	case 4:
		n := m.node.DeepCopy()
		n.Name, n.UID = "old-"+m.node.Name, n.UID+"-old"
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		m.again = n
	default:
		c.place(t, m, at)
	}
	m.node.ResourceVersion = c.next()
	c.node(m.node.Name)
}

func (c *cluster) launch(t *rapid.T, at time.Time) {
	c.ids++
	m := &vm{id: fmt.Sprint("aws:///a/i-", c.ids), claim: fmt.Sprint("gpu-", c.ids), launched: at, labels: map[string]string{corev1.LabelInstanceTypeStable: kindOfVM}}
	m.labels[corev1.LabelTopologyZone] = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone")
	switch paid := rapid.SampledFrom([]string{"reserved", "on-demand", "spot", "drawn", "nobody says", "node group", "spot group"}).Draw(t, "paid"); paid {
	case "reserved":
		m.labels["karpenter.sh/capacity-type"], m.labels["karpenter.k8s.aws/capacity-reservation-id"] = paid, fmt.Sprint("cr-", rapid.IntRange(0, 3).Draw(t, "reservation"))
	case "on-demand", "spot":
		m.labels["karpenter.sh/capacity-type"] = paid
	case "drawn":
		m.labels["karpenter.sh/capacity-type"] = "reserved"
	case "node group":
		m.labels["eks.amazonaws.com/capacityType"] = "ON_DEMAND"
	case "spot group":
		m.labels["eks.amazonaws.com/capacityType"] = "SPOT"
	}
	if rapid.Bool().Draw(t, "pool") {
		m.labels["karpenter.sh/nodepool"] = "gpu"
	}
	c.machines = append(c.machines, m)
}

// register makes the node, under a name that another may have had before.
func (c *cluster) register(t *rapid.T, m *vm, at time.Time) {
	name := fmt.Sprint("node-", rapid.IntRange(0, 5).Draw(t, "name"))
	for _, o := range c.machines {
		if o.node != nil && o.node.Name == name {
			return
		}
	}
	n := node(name, 8, 8)
	n.UID, n.Spec.ProviderID, n.CreationTimestamp, n.ResourceVersion = types.UID(m.id), m.id, metav1.NewTime(at), c.next()
	maps.Copy(n.Labels, m.labels)
	m.node = n
	c.node(name)
}

// place binds a pod to the machine, or ends one.
func (c *cluster) place(t *rapid.T, m *vm, at time.Time) {
	key := fmt.Sprint("p", rapid.IntRange(0, 5).Draw(t, "pod"))
	if p := c.pods[key]; p != nil {
		if delete(c.pods, key); rapid.Bool().Draw(t, "finished") {
			p = p.DeepCopy()
			p.Status.Phase, p.ResourceVersion = corev1.PodSucceeded, c.next()
			c.pods[key] = p
		}
		c.pod(key)
		return
	}
	free := m.node.Status.Allocatable["nvidia.com/gpu"]
	left := free.Value()
	for _, p := range c.pods {
		if p.Spec.NodeName == m.node.Name && p.Status.Phase == corev1.PodRunning {
			q := p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]
			left -= q.Value()
		}
	}
	if left <= 0 {
		return
	}
	p := holder(m.node.Name, rapid.Int64Range(1, left).Draw(t, "asks"))
	p.Name, p.UID, p.ResourceVersion, p.CreationTimestamp = key, types.UID(fmt.Sprint(key, "-", c.version)), c.next(), metav1.NewTime(at)
	c.pods[key] = p
	c.pod(key)
}

// facts are what is read of it: with twice, several objects come twice, and in any order.
func (c *cluster) facts(t *rapid.T, at time.Time, twice bool) *facts.Facts {
	f := &facts.Facts{At: at}
	f.Foreign = make(map[string][]*unstructured.Unstructured)
	add := func(apiVersion, kind, group, name string, labels map[string]string, spec, status map[string]any) {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "creationTimestamp": stamp(now.Add(-100 * time.Hour))}, "spec": spec}}
		if u.SetLabels(labels); status != nil {
			u.Object["status"] = status
		}
		for range 1 + btoi(twice && rapid.Bool().Draw(t, "twice")) {
			f.Foreign[kind+"."+group] = append(f.Foreign[kind+"."+group], u)
		}
	}
	for _, h := range c.reservations {
		add("berth.dev/v1alpha1", "Reservation", "berth.dev", h.name, nil, h.spec, nil)
	}
	add("berth.dev/v1alpha1", "Pool", "berth.dev", "karpenter", nil, c.pool, nil)
	add("karpenter.sh/v1", "NodePool", "karpenter.sh", "gpu", nil, map[string]any{"template": map[string]any{"spec": map[string]any{"requirements": []any{}, "nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}}}}, nil)
	add("karpenter.k8s.aws/v1", "EC2NodeClass", "karpenter.k8s.aws", "gpu", nil, map[string]any{}, map[string]any{"capacityReservations": []any{map[string]any{"id": "cr-0", "availabilityZone": "a", "instanceType": kindOfVM, "instanceMatchCriteria": "targeted", "ownerID": "1"}}})
	for _, m := range c.machines {
		status := map[string]any{"providerID": m.id, "capacity": map[string]any{"nvidia.com/gpu": "8"}, "conditions": []any{map[string]any{"type": "Launched", "status": "True", "lastTransitionTime": stamp(m.launched)}}}
		if m.node != nil {
			status["nodeName"] = m.node.Name
		}
		if m.labels["karpenter.sh/nodepool"] != "" || m.node == nil {
			add("karpenter.sh/v1", "NodeClaim", "karpenter.sh", m.claim, m.labels, map[string]any{}, status)
		}
		if m.node == nil {
			continue
		}
		for range 1 + btoi(twice && rapid.Bool().Draw(t, "node twice")) {
			f.Nodes = append(f.Nodes, m.node.DeepCopy())
		}
		if twice && m.again != nil {
			f.Nodes = append(f.Nodes, m.again)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.pods)) {
		f.Pods = append(f.Pods, c.pods[key].DeepCopy())
	}
	if twice {
		f.Nodes, f.Pods = rapid.Permutation(f.Nodes).Draw(t, "nodes"), rapid.Permutation(f.Pods).Draw(t, "pods")
		for _, kind := range slices.Sorted(maps.Keys(f.Foreign)) {
			f.Foreign[kind] = rapid.Permutation(f.Foreign[kind]).Draw(t, kind)
		}
	}
	return f
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// uses says that the first GPUs of some nodes are busy, of nodes that are gone too, and some of them twice.
func (c *cluster) uses(t *rapid.T) (out []doctor.Use) {
	for i := range 6 {
		for gpu := range rapid.IntRange(0, 8).Draw(t, "measured") {
			out = append(out, doctor.Use{Node: fmt.Sprint("node-", i), GPU: strconv.Itoa(gpu), Busy: gpu%2 == 0})
		}
	}
	return append(out, out[:len(out)/2]...)
}

// TestHistoriesOfObjects lives random histories of the objects as they are joined on a cluster of Karpenter's. Machines are launched, register
// under a name that another had, are cordoned, fall silent, lose GPUs and end, before their pods or after; reservations begin and end;
// objects come twice and under two names; the clock jumps, and the reader is restarted. At every moment each GPU that is paid for is in one
// state, once, and they add up to what is paid, in GPUs and in money. The GPU-time of the ledger is that of a recount, and what is paid that
// of the bill that is made of the decision log.
func TestHistoriesOfObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		var told []engine.Change
		c.node, c.pod = c.tell(&told)
		at, jumped := now, false
		l, recount := capacity.New(), make(map[capacity.Account]int64)
		first := c.facts(t, at, false)
		b := bill.New(bill.Options{Tariff: join.TariffOf(first)})
		b.Add(bill.Step{Now: at, Fresh: true})
		unregistered := int64(0) // GPU-milliseconds of machines that no reservation pays for and that are no node: no log tells of them
		was := join.Of(join.Input{Facts: first})
		c.check(t, was)
		if err := l.Sync(at, was.GPUs); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			next := at.Add(10 * time.Minute)
			if rapid.IntRange(0, 19).Draw(t, "clock") == 0 {
				next, jumped = at.Add(time.Duration(rapid.IntRange(-20, 20).Draw(t, "jump"))*10*time.Minute), true
			}
			if past := next.Sub(at).Milliseconds(); past > 0 {
				for _, g := range was.GPUs {
					if recount[g.Account] += past; g.Reservation == "" && was.Nodes[g.Unit] == "" {
						unregistered += past
					}
				}
			}
			at, told = next, nil
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				c.live(t, at)
			}
			uses := c.uses(t)
			was = join.Of(join.Input{Facts: c.facts(t, at, false), Uses: uses})
			c.check(t, was)
			again := join.Of(join.Input{Facts: c.facts(t, at, true), Uses: uses})
			if diff := gocmp.Diff(was.GPUs, again.GPUs); diff != "" {
				t.Fatalf("objects that come twice, and in another order, change the account (-once +twice):\n%s", diff)
			}
			for range 2 {
				if err := l.Sync(at, was.GPUs); err != nil {
					t.Fatal(err)
				}
			}
			b.Add(bill.Step{Now: at, Changes: rapid.Permutation(slices.Concat(told, told)).Draw(t, "told")})
			if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
				text, err := l.Dump()
				if err != nil {
					t.Fatal(err)
				}
				if l, err = capacity.Load(text); err != nil {
					t.Fatal(err)
				}
			}
		}
		if jumped { // the ledger and the log take other parts of a jump for unseen: each is held to its own recount elsewhere
			return
		}
		compareTime(t, l, recount, b.Close(at, bill.ByNamespace), unregistered)
	})
}

// tell records what a scheduler is told.
func (c *cluster) tell(told *[]engine.Change) (node, pod func(string)) {
	gone := func(kind engine.Kind, key string) {
		c.version++
		*told = append(*told, engine.Change{Gone: &engine.Ref{Kind: kind, Key: key, Version: uint64(c.version)}})
	}
	node = func(name string) {
		for _, m := range c.machines {
			if m.node != nil && m.node.Name == name {
				n := convert.Node(m.node, convert.Options{})
				*told = append(*told, engine.Change{Node: &n})
				return
			}
		}
		gone(engine.KindNode, name)
	}
	return node, func(key string) {
		if p := c.pods[key]; p != nil && p.Status.Phase == corev1.PodRunning {
			e := convert.Pod(p, convert.Options{})
			*told = append(*told, engine.Change{Pod: &e})
			return
		}
		gone(engine.KindPod, "team/"+key)
	}
}

// check holds an account to what was bought, and to the machines.
func (c *cluster) check(t *rapid.T, r join.Report) {
	of, machines, taken, seen := make(map[string]int), make(map[string]int), make(map[string]int64), make(map[capacity.ID]bool)
	reserved, money, unpriced := 0, int64(0), 0
	for _, g := range r.GPUs {
		if seen[g.ID] {
			t.Fatalf("GPU %v has two states", g.ID)
		}
		seen[g.ID] = true
		if (g.Stage == capacity.Busy) != (g.Cause == "") || (g.Owner == "") != (g.Cause == "") {
			t.Fatalf("GPU %v: stage %v, cause %q, owner %q", g.ID, g.Stage, g.Cause, g.Owner)
		}
		of[g.Reservation]++
		if g.Stage >= capacity.Allocated {
			taken[r.Nodes[g.Unit]]++
		}
		for _, m := range c.machines {
			if g.Index == 0 && (g.Unit == "machine/"+m.id || g.Unit == g.Reservation+"/"+m.id) {
				machines[m.id]++
			}
		}
		if money += int64(g.Price.Micro); !g.Price.Known {
			unpriced++
		}
	}
	wantMoney, wantUnpriced := int64(0), 0
	for _, h := range c.reservations {
		want := 0
		if h.paid(r.At) {
			want = 8 * h.instances
			if wantMoney += h.price * int64(h.instances); h.price == 0 {
				wantUnpriced += want
			}
		}
		if of[h.name] != want {
			t.Fatalf("%d GPUs of %s are accounted for, of %d", of[h.name], h.name, want)
		}
		reserved += want
	}
	for _, m := range c.machines {
		if machines[m.id] != 1 {
			t.Fatalf("machine %s is accounted for %d times", m.id, machines[m.id])
		}
		if m.node != nil && m.node.Status.Conditions[0].Status == corev1.ConditionTrue && taken[m.node.Name] != c.taken(m) {
			t.Fatalf("%d GPUs of %s are held, want %d", taken[m.node.Name], m.node.Name, c.taken(m))
		}
	}
	for _, g := range r.GPUs {
		switch {
		case g.Reservation != "" || g.Index > 0:
		case g.Pool == "karpenter" && c.pool["price"] != nil:
			wantMoney += 80_000_000
		default:
			wantUnpriced += 8
		}
	}
	if money != wantMoney || unpriced != wantUnpriced || len(r.GPUs) != reserved+of[""] {
		t.Fatalf("%d GPUs for %d an hour, %d without a price; want %d for %d, %d", len(r.GPUs), money, unpriced, reserved+of[""], wantMoney, wantUnpriced)
	}
}

// taken is how many GPUs of the machine pods hold: no more than its node finds well.
func (c *cluster) taken(m *vm) int64 {
	well := m.node.Status.Allocatable["nvidia.com/gpu"]
	asked := int64(0)
	for _, p := range c.pods {
		if p.Spec.NodeName == m.node.Name && p.Status.Phase == corev1.PodRunning {
			q := p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]
			asked += q.Value()
		}
	}
	return min(asked, well.Value())
}

// compareTime holds the ledger to a recount of every moment, and to the bill.
func compareTime(t *rapid.T, l *capacity.Ledger, recount map[capacity.Account]int64, r *bill.Report, unregistered int64) {
	have, sum, money, unpriced := make(map[capacity.Account]int64), int64(0), make(map[string]int64), int64(0)
	for _, s := range l.Sums() {
		if s.GPUMilliseconds > 0 {
			have[s.Account] += s.GPUMilliseconds
		}
		sum += s.GPUMilliseconds
		unpriced += s.UnpricedGPUMilliseconds
		money[s.Currency] += int64(s.Spent)
	}
	if diff := gocmp.Diff(recount, have); diff != "" {
		t.Fatalf("GPU-milliseconds (-recounted +ledger):\n%s", diff)
	}
	paid := r.Paid.Used / 1000
	if paid != sum-unregistered {
		t.Fatalf("the bill is of %d GPU-milliseconds, the ledger of %d, and %d of them are of no node", paid, sum, unregistered)
	}
	if unregistered > 0 {
		return
	}
	if r.Paid.Unpriced/1000 != unpriced {
		t.Fatalf("the bill has %d GPU-milliseconds without a price, and the ledger %d", r.Paid.Unpriced/1000, unpriced)
	}
	billed := make(map[string]int64)
	for _, a := range r.Paid.Cost {
		billed[a.Currency] += int64(a.Micro)
	}
	for _, currency := range []string{"USD"} { // each account and each rate is rounded down once
		if off := billed[currency] - money[currency]; off > 100 || off < -100 {
			t.Fatalf("the bill is %d millionths, and the ledger has spent %d", billed[currency], money[currency])
		}
	}
}
