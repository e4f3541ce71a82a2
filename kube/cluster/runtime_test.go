package cluster

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// school is a feed that learns.
type school struct {
	*Feed
	changes changes
	version int
}

func newSchool() *school {
	s := &school{}
	s.Feed = New(Options{
		Convert: convert.Options{SchedulerNames: []string{DefaultName}}, Sink: &s.changes, Listener: &silence{missing: make(map[string][]string)}, Now: time.Now,
	})
	s.owners.complete = true
	return s
}

func (s *school) see(p *corev1.Pod) {
	s.version++
	p = p.DeepCopy()
	p.ResourceVersion = strconv.Itoa(s.version)
	s.Set(p)
	s.Settle()
}

// begin has the pod get a node now, and finish has it end.
func (s *school) begin(p *corev1.Pod) {
	p.UID, p.Spec.NodeName, p.Status.Phase = types.UID(p.Name), "n1", corev1.PodRunning
	p.Status.StartTime = new(metav1.Now())
	p.Spec.Containers[0].Image = "train:1"
	s.see(p)
}

func (s *school) finish(p *corev1.Pod, phase corev1.PodPhase) {
	p = p.DeepCopy()
	p.Status.Phase = phase
	Trim(p)
	s.see(p)
}

// learnt are the run-time estimates that the engine was given, in order.
func (s *school) learnt() (out []engine.RunTimeEstimate) {
	for _, c := range s.changes.take() {
		if c.RunTimeEstimate != nil {
			c.RunTimeEstimate.Version = 0
			out = append(out, *c.RunTimeEstimate)
		}
	}
	return out
}

// Three workloads of a kind that succeeded tell how long the next takes; what failed, was deleted or never ran does not.
func TestRunTimeEstimates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchool()
		run := func(name string, d time.Duration, phase corev1.PodPhase) {
			p := pod(name, 1)
			s.begin(p)
			time.Sleep(d)
			s.finish(p, phase)
		}
		run("a", 3*time.Hour, corev1.PodSucceeded)
		run("failed", time.Minute, corev1.PodFailed)
		run("b", time.Hour, corev1.PodSucceeded)
		gone := pod("gone", 1)
		s.begin(gone)
		gone.ResourceVersion = "999"
		s.Remove(gone)
		theirs := pod("theirs", 1)
		theirs.Spec.SchedulerName = "other"
		s.begin(theirs)
		s.finish(theirs, corev1.PodSucceeded)
		old := pod("old", 1) // it had ended before anybody looked
		old.Status.Phase = corev1.PodSucceeded
		s.see(old)
		if got := s.learnt(); got != nil {
			t.Fatalf("learnt from two: %v", got)
		}
		run("c", 2*time.Hour, corev1.PodSucceeded)
		want := []engine.RunTimeEstimate{{Like: "default/train:1 x1", Count: 3, Short: time.Hour, Median: 2 * time.Hour, Long: 3 * time.Hour}}
		if diff := cmp.Diff(want, s.learnt()); diff != "" {
			t.Error(diff)
		}
	})
}

// A gang took from when its first member got a node until its last has succeeded; with one that failed it tells nothing.
func TestRunTimeEstimatesOfGangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchool()
		run := func(n int, last corev1.PodPhase) {
			name := fmt.Sprintf("g%d", n)
			a, b := pod(name+"-a", 1, "gang", name, "min", "2"), pod(name+"-b", 1, "gang", name, "min", "2")
			s.begin(a)
			time.Sleep(time.Minute)
			s.begin(b)
			time.Sleep(time.Hour)
			s.finish(b, corev1.PodSucceeded)
			time.Sleep(time.Minute)
			s.finish(a, last)
		}
		run(1, corev1.PodSucceeded)
		run(2, corev1.PodFailed)
		run(3, corev1.PodSucceeded)
		run(4, corev1.PodFailed)
		if got := s.learnt(); got != nil {
			t.Fatalf("learnt from two: %v", got)
		}
		run(5, corev1.PodSucceeded)
		took := time.Hour + 2*time.Minute
		want := []engine.RunTimeEstimate{{Like: "default/train:1 x2", Count: 3, Short: took, Median: took, Long: took}}
		if diff := cmp.Diff(want, s.learnt()); diff != "" {
			t.Error(diff)
		}
		if len(s.runtimes.ending) > 0 {
			t.Errorf("remembers %d gangs that are over", len(s.runtimes.ending))
		}
	})
}

// The last 64 count, and of kinds those that ended last.
func TestRunTimeEstimatesAreBounded(t *testing.T) {
	s := newSchool()
	for i := range 100 {
		s.runtimes.learn("a", time.Duration(i)*time.Second)
	}
	got := s.learnt()
	want := engine.RunTimeEstimate{Like: "a", Count: 64, Short: 42 * time.Second, Median: 68 * time.Second, Long: 93 * time.Second}
	if diff := cmp.Diff(want, got[len(got)-1]); diff != "" {
		t.Error(diff)
	}
	s.runtimes.learn("once", time.Second)
	for i := range estimateKinds {
		s.runtimes.learn(strconv.Itoa(i), time.Second)
	}
	var forgot []string
	for _, c := range s.changes.take() {
		if c.Gone != nil {
			forgot = append(forgot, string(c.Gone.Kind)+" "+c.Gone.Key)
		}
	}
	if diff := cmp.Diff([]string{"run-time-estimate a"}, forgot); diff != "" || len(s.runtimes.of) != estimateKinds {
		t.Errorf("%s; keeps %d kinds", diff, len(s.runtimes.of))
	}
}
