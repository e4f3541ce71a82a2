package diagnose_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
)

// Real clusters are older, fuller and less readable than a case that was written down. noise makes a drawn case so.
type noise struct {
	name string
	// neutral says that the answer must be as without it. Other noise may cost the cause, and must not make an all-clear
	// of it.
	neutral bool
	applies func(*testCase) bool // nil: to every case
	make    func(*testCase, *rand.Rand)
}

var noises = []noise{
	{name: "other objects", neutral: true, make: func(c *testCase, r *rand.Rand) {
		crowded(c.facts, r)
		extended(c.facts, r)
		shuffled(c.facts, r)
	}},
	{name: "aged by hours", applies: (*testCase).stopped, make: aged},
	{name: "missing rights", applies: (*testCase).stopped, make: hidden},
}

func (c *testCase) blocked() bool { return c.Layer != "none" && c.Layer != "" }

// stopped says whether it is blocked and does not run: what ran for hours is well, and so is what runs as far as can be seen.
func (c *testCase) stopped() bool { return c.blocked() && c.State != string(facts.Running) }

// TestScoreUnderNoise draws a third of the corpus anew and makes each case noisy. A law that holds for all is held to on a
// ninth, because every case costs a diagnosis.
func TestScoreUnderNoise(t *testing.T) {
	const bar = 95
	drawn := cmp.Or(*seed, uint64(time.Now().UnixNano()))
	fmt.Printf("diagnosis under noise, seed %d\n", drawn)
	for _, n := range noises {
		s, of, clears := newScore(), 0, 0
		for i, name := range caseNames(t) {
			if uint64(i)%3 != drawn%3 || !n.neutral && uint64(i/3)%3 != drawn/3%3 {
				continue
			}
			c := loadCase(t, name, drawn)
			if n.applies != nil && !n.applies(&c) {
				continue
			}
			n.make(&c, rand.New(rand.NewPCG(drawn, uint64(i))))
			got := c.diagnose(t)
			of++
			s.add(&c, got)
			if c.blocked() && got.Cause == diagnose.Healthy {
				clears++
				t.Logf("%s: %s: an all-clear for %s, with %v not seen: %s", n.name, name, c.Cause, c.facts.Unseen, got.Summary)
			} else if wrong := c.wrong(got); n.neutral && len(wrong) > 0 {
				t.Logf("%s: %s: %s", n.name, name, strings.Join(wrong, "; "))
			}
		}
		fmt.Printf("  %-20s %s   all-clears %d of %d\n", n.name, s, clears, of)
		if clears > 0 {
			t.Errorf("%s: %d all-clears in %d cases", n.name, clears, of)
		}
		for _, what := range scored {
			if p := s.percent(what); n.neutral && p < bar {
				t.Errorf("%s: %s: %.1f %% are right, want %d", n.name, what, p, bar)
			}
		}
	}
}

// shuffled puts all lists into another order.
func shuffled(f *facts.Facts, r *rand.Rand) {
	for _, k := range facts.Kinds {
		list := k.List(&f.Objects)
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		f.Objects = without(f.Objects, k)
		for _, o := range list {
			k.Add(&f.Objects, o)
		}
	}
}

// without is everything but one kind.
func without(o facts.Objects, k *facts.KindInfo) facts.Objects {
	var out facts.Objects
	for _, each := range facts.Kinds {
		if each == k {
			continue
		}
		for _, object := range each.List(&o) {
			each.Add(&out, object)
		}
	}
	for name, list := range o.Foreign { // kinds that have no row
		if out.Foreign[name] == nil && name != k.Kind+"."+k.Group {
			if out.Foreign == nil {
				out.Foreign = map[string][]*unstructured.Unstructured{}
			}
			out.Foreign[name] = list
		}
	}
	return out
}

// crowded adds another team's namespace, with work that is done, quotas, and warnings about things that nobody asked for.
func crowded(f *facts.Facts, r *rand.Rand) {
	const space = "elsewhere"
	word := func() string { return fmt.Sprintf("noise-%05d", r.IntN(100000)) }
	meta := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: space, Name: word(), CreationTimestamp: metav1.Time{Time: f.At.Add(-time.Duration(r.IntN(1000)) * time.Minute)}}
	}
	f.Namespaces = append(f.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}})
	for range 5 + r.IntN(20) {
		pod := &corev1.Pod{ObjectMeta: meta(), Spec: corev1.PodSpec{SchedulerName: "default-scheduler", Containers: []corev1.Container{{Name: "c", Image: "registry.example/" + word()}}}}
		pod.Status.Phase = corev1.PodSucceeded
		if r.IntN(2) == 0 {
			pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Error"
		}
		f.Pods = append(f.Pods, pod)
		f.Events = append(f.Events, &corev1.Event{
			ObjectMeta: meta(), InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: space, Name: pod.Name},
			Type: corev1.EventTypeWarning, Reason: []string{"FailedScheduling", "BackOff", "FailedMount", "Unhealthy"}[r.IntN(4)],
			Message: "0/9 nodes are available: 9 Insufficient nvidia.com/gpu.", LastTimestamp: metav1.Time{Time: f.At.Add(-time.Minute)},
		})
	}
	f.LimitRanges = append(f.LimitRanges, &corev1.LimitRange{ObjectMeta: meta()})
	f.ResourceQuotas = append(f.ResourceQuotas, &corev1.ResourceQuota{ObjectMeta: meta()})
	f.PersistentVolumeClaims = append(f.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{ObjectMeta: meta(), Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}})
}

// extended adds objects of projects that nobody here knows. Some report trouble of their own; none names anything that
// was asked about.
func extended(f *facts.Facts, r *rand.Rand) {
	if f.Foreign == nil {
		f.Foreign = map[string][]*unstructured.Unstructured{}
	}
	for range 2 + r.IntN(4) {
		kind, group := fmt.Sprintf("Gadget%d", r.IntN(1000)), fmt.Sprintf("g%d.unknown", r.IntN(1000))
		for range 1 + r.IntN(4) {
			u := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": group + "/v1", "kind": kind,
				"metadata": map[string]any{"namespace": "elsewhere", "name": fmt.Sprintf("gadget-%d", r.IntN(1e6)), "creationTimestamp": f.At.Add(-time.Hour).Format(time.RFC3339)},
				"spec":     map[string]any{"target": fmt.Sprintf("thing-%d", r.IntN(1e6))},
				"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": []string{"True", "False", "Unknown"}[r.IntN(3)], "reason": "Because", "message": "it does not work"}}},
			}}
			f.Foreign[kind+"."+group] = append(f.Foreign[kind+"."+group], u)
		}
	}
}

// aged lets hours pass in which nothing happens.
func aged(c *testCase, r *rand.Rand) {
	c.facts.At = c.facts.At.Add(time.Duration(2+r.IntN(30)) * time.Hour)
}

// hidden takes one kind of objects away, as from somebody who may not read it.
func hidden(c *testCase, r *rand.Rand) {
	if list := c.hideable(); len(list) > 0 {
		c.hide(list[r.IntN(len(list))])
	}
}

// hideable are the kinds of the case's objects, without pods and what was asked about: without them there is no question.
func (c *testCase) hideable() (list []*facts.KindInfo) {
	asked, _, _ := strings.Cut(c.Target, "/")
	asked, _ = facts.ParseKind(asked)
	for _, k := range facts.Kinds {
		if len(k.List(&c.facts.Objects)) > 0 && k.Kind != "Pod" && k.Kind != asked {
			list = append(list, k)
		}
	}
	return list
}

func (c *testCase) hide(k *facts.KindInfo) {
	c.facts.Objects = without(c.facts.Objects, k)
	c.facts.Unseen = append(c.facts.Unseen, facts.Unseen{Resource: k.Name(), Reason: "forbidden"})
}

// TestNothingHiddenIsAnAllClear takes every kind of objects away from every case, one at a time. With a kind that may not be read
// the cause may be lost, and must not become an all-clear.
func TestNothingHiddenIsAnAllClear(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of diagnoses")
	}
	for _, name := range caseNames(t) {
		c := loadCase(t, name, 7)
		if !c.stopped() {
			continue
		}
		for _, k := range c.hideable() {
			c := loadCase(t, name, 7)
			c.hide(k)
			if got := c.diagnose(t); got.Cause == diagnose.Healthy {
				t.Errorf("%s without %s: %s", name, k.Name(), got.Summary)
			}
		}
	}
}
