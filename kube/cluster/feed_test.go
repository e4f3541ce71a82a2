package cluster

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/kube/convert"
)

// clock is a feed and the time that it is told.
type clock struct {
	*Feed
	changes changes
	now     time.Time
}

func newClock() *clock {
	c := &clock{now: noon}
	c.Feed = New(Options{
		Convert: convert.Options{SchedulerNames: []string{DefaultName}}, Sink: &c.changes, Listener: &silence{missing: make(map[string][]string)},
		Now: func() time.Time { return c.now },
	})
	return c
}

// Nothing is kept of what is gone.
func TestMemoryOfPodsThatAreGone(t *testing.T) {
	f := newClock()
	f.Set(node("n1", "r1", 1))
	for i := range 50 {
		p := pod(fmt.Sprintf("p-%d", i), 9, "gang", fmt.Sprintf("g-%d", i%5), "min", "nonsense", "typo", "x")
		p.UID, p.ResourceVersion = types.UID(p.Name), fmt.Sprint(1000+i)
		f.Set(p)
		f.Settle()
		f.Refuse("default/"+p.Name, "n1", "no")
		f.Remove(p)
		f.Settle()
	}
	f.now = f.now.Add(time.Hour)
	f.refusals.sweep()
	if got := len(f.members.pods) + len(f.members.gangs) + len(f.gangs.redo) + len(f.refusals.by) + len(f.preparing) + len(f.timers.list); got != 0 {
		t.Errorf("%d things remembered: %+v", got, f)
	}
}

// A pod whose controller has not been seen is kept from the engine until it is, or until its patience is over: the feed has
// no timer of its own, so it says when it wants to be asked again.
func TestPodWaitsForItsController(t *testing.T) {
	for _, comes := range []bool{true, false} {
		f := newClock()
		p := ownedPod("train", 0)
		p.UID, p.ResourceVersion, p.CreationTimestamp.Time = "p", "1", f.now
		f.Set(p)
		again := f.Settle()
		if want := noon.Add(ownerPatience + ownerGranularity); !again.Equal(want) || len(f.changes.take()) > 0 {
			t.Fatalf("given at once, or to be asked again at %v, want %v", again, want)
		}
		if comes {
			f.Set(job("train", 1))
		} else {
			f.now = again
		}
		f.Settle()
		if got := f.changes.take(); len(got) != 1 || got[0].Pod == nil {
			t.Errorf("the controller comes %v: %+v", comes, got)
		}
	}
}

// Owner references are what anybody writes: controllers that form a circle are taken in and taken away as others are.
func TestControllersInACircle(t *testing.T) {
	f := newClock()
	f.Set(node("n1", "r1", 1))
	at := func(name, by string) *batchv1.Job {
		j := job(name, 1)
		j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: by, UID: types.UID("uid-" + by), Controller: new(true)}}
		return j
	}
	for by, name := range map[string]string{"a": "b", "b": "c", "c": "a", "d": "d"} {
		f.Set(at(name, by))
	}
	for _, name := range []string{"a", "d"} {
		p := ownedPod(name, 0)
		p.UID, p.ResourceVersion = types.UID("p-"+name), "1"
		f.Set(p)
	}
	f.Settle()
	if got := len(f.changes.take()); got != 3 {
		t.Errorf("%d changes, want a node and two pods", got)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		f.Remove(job(name, 1))
	}
	f.Settle()
	if len(f.owners.all)+len(f.owners.below) > 0 {
		t.Errorf("left: %v", f.owners.below)
	}
}
