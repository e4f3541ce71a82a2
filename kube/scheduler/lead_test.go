package scheduler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func as(identity string) func(*Options) { return func(o *Options) { o.Identity = identity } }

func TestSecondTakesOverWhenTheFirstStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1))
		first := w.start(as("one"))
		w.after(5 * time.Second)
		w.start(as("two"))
		w.after(time.Minute)
		if holder := w.holder(); holder != "one" {
			t.Fatalf("%s leads", holder)
		}
		if err := first(); err != nil {
			t.Fatal(err)
		}
		w.add(pod("a", 1))
		w.after(10 * time.Second)
		if holder := w.holder(); holder != "two" {
			t.Errorf("%s leads", holder)
		}
		if diff := cmp.Diff([]string{"n1"}, w.at("a")); diff != "" {
			t.Error(diff)
		}
	})
}

// TestSecondLooksOften: who waits for the lease has it within a second, and nobody writes it more often for that.
func TestSecondLooksOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1))
		first := w.start(as("one"))
		w.start(as("two"))
		w.after(5 * time.Second)
		before := w.leaseWrites()
		w.after(time.Minute)
		if n := w.leaseWrites() - before; n < 40 || n > 75 {
			t.Errorf("the lease was written %d times in a minute", n)
		}
		if err := first(); err != nil {
			t.Fatal(err)
		}
		w.add(pod("a", 1))
		w.after(time.Second)
		if diff := cmp.Diff([]string{"n1"}, w.at("a")); diff != "" {
			t.Error(diff)
		}
	})
}

// leaseWrites is how often a lease was created or updated.
func (w *world) leaseWrites() (n int) {
	for _, a := range w.client.Actions() {
		if a.GetResource().Resource == "leases" && (a.GetVerb() == "create" || a.GetVerb() == "update") {
			n++
		}
	}
	return n
}

func TestLeaseTakenEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1))
		stop := w.start(as("one"))
		w.after(5 * time.Second)
		leases := w.client.CoordinationV1().Leases(leaseNamespace)
		l, err := leases.Get(context.Background(), "berth-scheduler", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		l = l.DeepCopy()
		other, now := "other", metav1.NewMicroTime(time.Now())
		l.Spec.HolderIdentity, l.Spec.RenewTime = &other, &now
		if _, err := leases.Update(context.Background(), l, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.after(leaseFor)
		w.add(pod("a", 1))
		w.rest()
		if len(w.tried()) > 0 {
			t.Errorf("bound without the lease: %q", w.tried())
		}
		if err := stop(); !errors.Is(err, errLostLead) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestStoppedBeforeItLed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start(as("one"))
		second := w.start(as("two"))
		if err := second(); err != nil {
			t.Error(err)
		}
	})
}

// What is being sent when the run ends is finished, and the lease is only given back then.
func TestShutdownFinishesWhatIsBeingSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 2))
		stop := w.start(as("one"))
		w.after(5 * time.Second)
		until := time.Now().Add(3 * time.Second)
		w.answer(func(*corev1.Binding) error {
			if time.Now().Before(until) {
				return errors.New("connection refused")
			}
			return nil
		})
		w.add(pod("a", 1))
		w.rest()
		began := time.Now()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > finishFor {
			t.Errorf("took %s", took)
		}
		if diff := cmp.Diff([]string{"n1"}, w.at("a")); diff != "" {
			t.Error(diff)
		}
		if holder := w.holder(); holder != "" {
			t.Errorf("%s still has the lease", holder)
		}
	})
}

// At the end no gang is left half bound if that can be helped; one that was not begun may wait for the next scheduler.
func TestShutdownFinishesTheGang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(append(gang("g", binders+10), gang("h", 2)...), node("n1", "r1", 100))...)
		until := time.Now().Add(3 * time.Second)
		w.answer(func(*corev1.Binding) error {
			if time.Now().Before(until) {
				return errors.New("connection refused")
			}
			return nil
		})
		stop := w.start()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if got := len(w.done()); got != binders+10 && got != binders+12 {
			t.Errorf("%d bound, want %d of one gang, and none or 2 of the other", got, binders+10)
		}
	})
}

func TestShutdownDoesNotWaitForAServerThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
		w.answer(func(*corev1.Binding) error { return errors.New("connection refused") })
		stop := w.start()
		began := time.Now()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < finishFor || took > finishFor+3*time.Second {
			t.Errorf("took %s, want about %s", took, finishFor)
		}
	})
}

func (w *world) holder() string {
	l, err := w.client.CoordinationV1().Leases(leaseNamespace).Get(context.Background(), "berth-scheduler", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return *l.Spec.HolderIdentity
}
