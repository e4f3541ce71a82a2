package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// tenants is a small world of namespaces, queues and workloads, and the feed that hears of it.
type tenants struct {
	*scheduler
	version    int
	namespaces map[string]*corev1.Namespace
	queues     map[string]*v1alpha1.BerthQueue
	pods       map[string]*corev1.Pod
	fixed      map[types.UID]*fixedTerms
}

// fixedTerms are those that a pod entered its queue with.
type fixedTerms struct{ workload, payer string }

func (w *tenants) stamp(m *metav1.ObjectMeta) {
	w.version++
	m.ResourceVersion = fmt.Sprint(w.version)
	if m.UID == "" {
		m.UID = types.UID(fmt.Sprint("uid-", w.version))
	}
}

// step changes one thing.
func (w *tenants) step(t *rapid.T) {
	team := rapid.SampledFrom([]string{"", "a", "b"})
	queue := rapid.SampledFrom([]string{"", "q", "r"})
	name := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "namespace")
	switch rapid.IntRange(0, 7).Draw(t, "what") {
	case 0, 1:
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team.Draw(t, "team"), "berth.dev/queue": queue.Draw(t, "queue")}}}
		w.stamp(&n.ObjectMeta)
		w.namespaces[name] = n
		w.feed.Set(n)
	case 2:
		if n := w.namespaces[name]; n != nil {
			delete(w.namespaces, name)
			w.feed.Remove(n)
		}
	case 3, 4:
		q := limit(rapid.SampledFrom([]string{"q", "r", v1alpha1.DefaultQueue}).Draw(t, "queue"), 1, nil)
		if to := team.Draw(t, "open to"); to != "" {
			q = limit(q.Name, 1, map[string]string{"team": to})
		}
		if old := w.queues[q.Name]; old != nil && rapid.Bool().Draw(t, "the same") {
			q.UID = old.UID
		}
		w.stamp(&q.ObjectMeta)
		w.queues[q.Name] = q
		w.feed.Set(q)
	case 5:
		for _, key := range slices.Sorted(maps.Keys(w.queues)) {
			w.feed.Remove(w.queues[key])
			delete(w.queues, key)
			break
		}
	case 6:
		p := pod(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "pod"), 1, "queue", queue.Draw(t, "queue"))
		if p.Namespace = name; rapid.Bool().Draw(t, "in a gang") {
			p.Annotations["berth.dev/gang"] = "g"
		}
		if old := w.pods[name+"/"+p.Name]; old != nil {
			p.UID = old.UID
		}
		w.stamp(&p.ObjectMeta)
		w.pods[name+"/"+p.Name] = p
		w.feed.Set(p)
	case 7:
		for _, key := range slices.Sorted(maps.Keys(w.pods)) { // the list comes again, as after a watch that broke
			w.feed.Set(w.pods[key])
		}
	}
}

// lets says whether the queue exists and the namespace may use it.
func (w *tenants) lets(namespace, queue string) bool {
	if queue == v1alpha1.DefaultQueue && w.queues[queue] == nil {
		return len(w.queues) > 0
	}
	may, ok := w.open()[queue]
	return queue == "" || ok && (may == nil || slices.Contains(may, namespace))
}

// fallback is who pays for what names no queue.
func (w *tenants) fallback(namespace string) string {
	if n := w.namespaces[namespace]; n != nil && n.Labels["berth.dev/queue"] != "" {
		return n.Labels["berth.dev/queue"]
	}
	if len(w.queues) > 0 { // where nobody made it, the scheduler implies it
		return v1alpha1.DefaultQueue
	}
	return ""
}

// payers is who should pay: by pod, or by gang. All wait: who entered a queue stays there while it lets them.
func (w *tenants) payers() map[string]string {
	for _, p := range w.pods {
		if t := w.fixed[p.UID]; t != nil && !w.lets(p.Namespace, t.payer) {
			delete(w.fixed, p.UID)
		}
	}
	crews := make(map[string][]*corev1.Pod)
	for _, key := range slices.Sorted(maps.Keys(w.pods)) {
		p, workload := w.pods[key], key
		if t := w.fixed[p.UID]; t != nil {
			workload = t.workload
		} else if g := p.Annotations["berth.dev/gang"]; g != "" {
			workload = p.Namespace + "/gang/" + g
		}
		crews[workload] = append(crews[workload], p)
	}
	out := make(map[string]string)
	for workload, crew := range crews {
		payer, decided := "", false
		for _, p := range crew {
			if t := w.fixed[p.UID]; t != nil && !decided {
				payer, decided = t.payer, true
			}
		}
		for _, p := range crew {
			if payer == "" && !decided {
				payer = p.Annotations["berth.dev/queue"]
			}
		}
		namespace := crew[0].Namespace
		if payer == "" {
			payer = w.fallback(namespace)
		}
		out[workload] = payer
		for _, p := range crew {
			switch {
			case w.lets(namespace, payer):
				w.fixed[p.UID] = &fixedTerms{workload, payer}
			case decided && w.fixed[p.UID] == nil: // it comes to a gang that is in no queue
				w.fixed[p.UID] = &fixedTerms{workload, ""}
			}
		}
	}
	return out
}

// open is which namespaces may use each queue; nil: all.
func (w *tenants) open() map[string][]string {
	out := make(map[string][]string)
	if len(w.queues) > 0 {
		out[v1alpha1.DefaultQueue] = nil // also without an object
	}
	for name, q := range w.queues {
		if q.Spec.NamespaceSelector == nil {
			out[name] = nil
			continue
		}
		out[name] = []string{}
		for _, n := range slices.Sorted(maps.Keys(w.namespaces)) {
			if w.namespaces[n].Labels["team"] == q.Spec.NamespaceSelector.MatchLabels["team"] {
				out[name] = append(out[name], n)
			}
		}
	}
	return out
}

// check has the engine take in what the feed gave, and compares.
func (w *tenants) check(t *rapid.T) {
	w.feed.Settle()
	if bad := w.state.Apply(w.inbox.take()...); len(bad) > 0 {
		t.Fatal(bad)
	}
	dump, pays, may := w.state.Dump(), make(map[string]string), make(map[string][]string)
	for _, p := range dump.Pods {
		if p.Gang == "" {
			pays[p.Key] = p.Queue
		}
	}
	for _, g := range dump.Gangs {
		pays[g.Key] = g.Queue
	}
	for _, q := range dump.Queues {
		may[q.Name] = q.Namespaces
	}
	if diff := cmp.Diff(w.payers(), pays); diff != "" {
		t.Fatalf("who pays: %s", diff)
	}
	if diff := cmp.Diff(w.open(), may); diff != "" {
		t.Fatalf("who may: %s", diff)
	}
}

// Whatever happens in whatever order, the engine knows who pays for what and who may use which queue, as they
// follow from the objects that there are and from those that there were when a workload entered its queue.
func TestTenancyFollowsFromObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := newScheduler(nil, Options{}.normal())
		if err != nil {
			t.Fatal(err)
		}
		w := &tenants{scheduler: s, namespaces: map[string]*corev1.Namespace{}, queues: map[string]*v1alpha1.BerthQueue{}, pods: map[string]*corev1.Pod{}, fixed: map[types.UID]*fixedTerms{}}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			w.step(t)
			if rapid.Bool().Draw(t, "cycle") {
				w.check(t)
			}
		}
		w.check(t)
	})
}
