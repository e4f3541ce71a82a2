package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
)

// deployment is what a scheduler made of the charts.
type deployment struct {
	on    map[string]string // nodes by pod
	order []*corev1.Pod     // as they got their nodes
}

// start has the pod on the node from now on.
func (d *deployment) start(p *corev1.Pod, node string) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	d.on[p.Namespace+"/"+p.Name] = node
	d.order = append(d.order, p)
	return p
}

// place places the pods one by one where the stock scheduler's filters let them and its scores are highest; of equals the
// first by name. A pod that has no node is tried again with each later chart: it may want to be where pods of that one are.
func (k *stock) place(t *testing.T, nodes []*corev1.Node, all []installed) *deployment {
	out := &deployment{on: make(map[string]string)}
	var waiting []*corev1.Pod
	for _, chart := range all {
		again := waiting
		waiting = nil
		for i, p := range append(again, chart.pods...) {
			if i <= len(again) || !chart.perNode() {
				k.show(fleet{nodes: nodes, bound: out.order})
			}
			if node := k.best(t, p); node != "" {
				out.start(p, node)
			} else {
				waiting = append(waiting, p)
			}
		}
	}
	return out
}

func (k *stock) best(t rapid.TB, p *corev1.Pod) string {
	var best fwk.NodePluginScores
	for i, at := range k.scores(t, p) {
		if i == 0 || at.TotalScore > best.TotalScore {
			best = at
		}
	}
	return best.Name
}

// scores are of the feasible nodes, by name.
func (k *stock) scores(t rapid.TB, p *corev1.Pod) []fwk.NodePluginScores {
	ctx, state := context.Background(), framework.NewCycleState()
	only, status, _ := k.profile.RunPreFilterPlugins(ctx, state, p)
	if !status.IsSuccess() {
		return nil
	}
	infos, err := k.snapshot.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	var feasible []fwk.NodeInfo
	for _, info := range infos {
		if (only.AllNodes() || only.NodeNames.Has(info.Node().Name)) && k.profile.RunFilterPluginsWithNominatedPods(ctx, state, p, info).IsSuccess() {
			feasible = append(feasible, info)
		}
	}
	if len(feasible) == 0 {
		return nil
	}
	slices.SortFunc(feasible, func(a, b fwk.NodeInfo) int {
		if a.Node().Name < b.Node().Name {
			return -1
		}
		return 1
	})
	if s := k.profile.RunPreScorePlugins(ctx, state, p, feasible); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	scores, s := k.profile.RunScorePlugins(ctx, state, p, feasible)
	if !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	return scores
}

// perNode says that the chart's pods are on a node each, which is theirs from the start: they do not concern each other.
func (c installed) perNode() bool { return c.kind == "DaemonSet" }

// live is Berth as the live scheduler runs it, without an API server: a feed and an engine.
type live struct {
	feed    *cluster.Feed
	state   *engine.State
	changes []engine.Change
	version int
}

func (l *live) Put(more ...engine.Change) { l.changes = append(l.changes, more...) }
func (*live) Wake()                       {}

func (*live) Forget(types.UID)                     {}
func (*live) NotHonoured(cluster.Object, []string) {}
func (*live) Counted(cluster.Object, string)       {}
func (*live) ClaimsMissing(*corev1.Pod, []string)  {}
func (*live) Admitted(*corev1.Pod)                 {}
func (*live) Begun(cluster.Object)                 {}
func (*live) UsageChanged()                        {}
func (*live) AccessChanged()                       {}
func (l *live) stamp(o metav1.Object)              { l.version++; o.SetResourceVersion(fmt.Sprint(l.version)) }
func (l *live) clock() time.Time                   { return noon.Add(time.Minute) }

func newLive() *live {
	levels := cluster.DefaultLevels()
	l := &live{state: engine.Load(engine.Snapshot{}, engine.Config{Levels: levels})}
	l.feed = cluster.New(cluster.Options{Convert: convert.Options{SchedulerNames: []string{corev1.DefaultSchedulerName}}, Levels: levels, Sink: l, Listener: l, Now: l.clock})
	return l
}

func (l *live) set(objects ...runtime.Object) {
	for _, o := range objects {
		o := o.DeepCopyObject()
		l.stamp(o.(metav1.Object))
		switch o := o.(type) {
		case *corev1.Node, *corev1.Namespace, *corev1.Pod, *corev1.Service, *corev1.PersistentVolumeClaim, *corev1.PersistentVolume, *storagev1.StorageClass,
			*storagev1.CSINode, *appsv1.StatefulSet, *appsv1.ReplicaSet:
			l.feed.Set(o.(metav1.Object))
		default:
			panic(fmt.Sprintf("%T", o))
		}
	}
}

// place installs the charts one after the other, and starts what the engine plans until it plans nothing more.
func (l *live) place(t *testing.T, all []installed) *deployment {
	out := &deployment{on: make(map[string]string)}
	byKey := make(map[string]*corev1.Pod)
	for _, chart := range all {
		l.set(chart.objects...)
		for _, p := range chart.pods {
			byKey[p.Namespace+"/"+p.Name] = p
			l.set(p)
		}
		for started := true; started; {
			l.feed.Settle()
			for _, r := range l.state.Apply(l.changes...) {
				t.Fatalf("the engine rejects %s %s: %s", r.Kind, r.Key, r.Reason)
			}
			l.changes = nil
			started = false
			for _, s := range l.state.Plan(l.clock()).Starts {
				for _, at := range s.Placements {
					started = true
					l.set(out.start(byKey[at.Pod], at.Node))
				}
			}
		}
	}
	return out
}

// skewOf is by how much the fullest domain of the label is above the emptiest, of the chart's pods. Domains are those of nodes
// that the pods may be on: with GPUs or without.
func (d *deployment) skewOf(c installed, key string, nodes []*corev1.Node) int {
	counts := make(map[string]int)
	at := make(map[string]string)
	for _, n := range nodes {
		if (len(n.Spec.Taints) > 0) == (c.gpus > 0) {
			counts[n.Labels[key]] += 0
		}
		at[n.Name] = n.Labels[key]
	}
	for _, p := range c.pods {
		if node := d.on[p.Namespace+"/"+p.Name]; node != "" {
			counts[at[node]]++
		}
	}
	least, most := 1<<30, 0
	for _, n := range counts {
		least, most = min(least, n), max(most, n)
	}
	return most - least
}

// inDrawnOrder are the charts, in another order for every CHARTS_SEED that is given: who comes later finds less room.
func inDrawnOrder(t *testing.T) []shape {
	text := os.Getenv("CHARTS_SEED")
	if text == "" {
		return charts
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("CHARTS_SEED: %v", err)
	}
	out := slices.Clone(charts)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// Twenty and more popular charts on 200 mixed nodes: what the stock scheduler runs, Berth runs; on no node that the stock
// scheduler's filters refuse, each pod judged when it starts; and no more unevenly.
func TestChartsAsStock(t *testing.T) {
	if testing.Short() {
		t.Skip("it places some thousand pods twice")
	}
	nodes, drivers := mixedFleet()
	var all []installed
	objects := shared(drivers)
	for _, s := range inDrawnOrder(t) {
		c := s.install(nodes)
		all = append(all, c)
		objects = append(objects, c.objects...)
	}
	k := newStock(t, objects...)
	began := time.Now()
	theirs := k.place(t, nodes, all)
	between := time.Now()
	l := newLive()
	l.set(objects[:len(shared(drivers))]...)
	for _, n := range nodes {
		l.set(n)
	}
	ours := l.place(t, all)
	t.Logf("%d pods of %d charts run with the stock scheduler (%v), %d with Berth (%v)", len(theirs.on), len(all), between.Sub(began).Round(time.Millisecond), len(ours.on), time.Since(between).Round(time.Millisecond))

	at := make(map[string]*corev1.Node)
	for _, n := range nodes {
		at[n.Name] = n
	}
	byOwner := make(map[types.UID]installed)
	for _, c := range all {
		byOwner[c.pods[0].OwnerReferences[0].UID] = c
	}
	var last types.UID
	for i, p := range ours.order {
		owner := p.OwnerReferences[0].UID
		if owner != last || !byOwner[owner].perNode() {
			k.show(fleet{nodes: nodes, bound: ours.order[:i]})
		}
		last = owner
		asks := p.DeepCopy()
		asks.Spec.NodeName = ""
		if by := k.judge(t, []*corev1.Node{at[p.Spec.NodeName]}, asks)[p.Spec.NodeName]; by != "" {
			t.Errorf("%s/%s is on %s, which %s of the stock scheduler refuses", p.Namespace, p.Name, p.Spec.NodeName, by)
		}
	}
	for _, c := range all {
		for _, p := range c.pods {
			key := p.Namespace + "/" + p.Name
			if theirs.on[key] != "" && ours.on[key] == "" {
				t.Errorf("%s runs with the stock scheduler and not with Berth: %v", key, l.state.Explain(l.feed.Find(key).Workload, l.clock(), 0))
			}
		}
		if c.perNode() {
			continue
		}
		for _, key := range []string{zone, host} {
			limit, ok := c.asks(key)
			was, is := theirs.skewOf(c, key, nodes), ours.skewOf(c, key, nodes)
			if ok && is > max(was, limit) {
				t.Errorf("%v: skew %d over %s, with the stock scheduler %d", c, is, key, was)
			}
		}
	}
}

// asks says whether the pods ask to be apart by the label, and which skew they are content with: by their own constraints, else
// by upstream's default ones, which pods with GPUs do not have here; or by anti-affinity.
func (c installed) asks(key string) (skew int, ok bool) {
	spec := &c.pods[0].Spec
	for _, s := range spec.TopologySpreadConstraints {
		if s.TopologyKey == key {
			return int(s.MaxSkew), true
		}
	}
	if a := spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if t.TopologyKey == key {
				return 1, true
			}
		}
		for _, w := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			if w.PodAffinityTerm.TopologyKey == key {
				return 1, true
			}
		}
	}
	if len(spec.TopologySpreadConstraints) > 0 || c.gpus > 0 {
		return 0, false
	}
	return map[string]int{zone: 5, host: 3}[key], true
}
