package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

func TestLeaseIntervalBoundsRenewals(t *testing.T) {
	for _, tc := range []struct {
		nodes           int
		interval, grace time.Duration
	}{
		{0, 10 * time.Second, 50 * time.Second},
		{7, 10 * time.Second, 50 * time.Second},
		{300, 10 * time.Second, 50 * time.Second},
		{301, 11 * time.Second, 52 * time.Second},
		{1000, 34 * time.Second, 98 * time.Second},
		{5000, 167 * time.Second, 364 * time.Second},
	} {
		got := LeaseInterval(tc.nodes)
		if got != tc.interval || GracePeriod(got) != tc.grace {
			t.Errorf("%d nodes: every %s with %s of grace, want %s and %s", tc.nodes, got, GracePeriod(got), tc.interval, tc.grace)
		}
		if rate := float64(tc.nodes) / got.Seconds(); rate > renewalsPerSecond {
			t.Errorf("%d nodes renew %.1f times a second", tc.nodes, rate)
		}
	}
}

// leaseServer is the API server's Leases: versions count up, and a write of an old one conflicts.
type leaseServer struct {
	coordinationclient.LeaseInterface // panics on what leases has no business calling

	start   time.Time
	mu      sync.Mutex
	version int
	stored  map[string]*coordinationv1.Lease
	calls   []string // "verb node @seconds"
}

func (s *leaseServer) record(verb, name string) {
	s.calls = append(s.calls, fmt.Sprintf("%s %s @%g", verb, name, time.Since(s.start).Seconds()))
}

func (s *leaseServer) store(l *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	l = l.DeepCopy()
	l.ResourceVersion = fmt.Sprint(s.version)
	s.stored[l.Name] = l
	return l
}

func (s *leaseServer) Create(_ context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record("create", l.Name)
	if s.stored[l.Name] != nil {
		return nil, apierrors.NewAlreadyExists(coordinationv1.Resource("leases"), l.Name)
	}
	return s.store(l), nil
}

func (s *leaseServer) Update(_ context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record("update", l.Name)
	switch old := s.stored[l.Name]; {
	case old == nil:
		return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), l.Name)
	case old.ResourceVersion != l.ResourceVersion:
		return nil, apierrors.NewConflict(coordinationv1.Resource("leases"), l.Name, errors.New("changed"))
	}
	return s.store(l), nil
}

func (s *leaseServer) Get(_ context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record("get", name)
	if l := s.stored[name]; l != nil {
		return l, nil
	}
	return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), name)
}

func (s *leaseServer) List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &coordinationv1.LeaseList{}
	for _, l := range s.stored {
		list.Items = append(list.Items, *l)
	}
	return list, nil
}

// meddle changes what is stored behind the fleet's back: nil deletes.
func (s *leaseServer) meddle(name string, l *coordinationv1.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stored, name)
	if l != nil {
		s.store(l)
	}
}

// leaseBed runs leases against a leaseServer inside a synctest bubble.
type leaseBed struct {
	*leases
	server *leaseServer
}

func newLeaseBed(t *testing.T, interval time.Duration) *leaseBed {
	b := &leaseBed{server: &leaseServer{start: time.Now(), stored: map[string]*coordinationv1.Lease{}}}
	b.leases = newLeases(b.server, interval, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { b.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return b
}

// take empties the record. Calls of one node are in order; the test has one node, or counts.
func (b *leaseBed) take() []string {
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	out := b.server.calls
	b.server.calls = nil
	return out
}

func TestLeasesAreWrittenAtOnceThenOncePerIntervalEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 400
		b := newLeaseBed(t, 100*time.Second)
		for i := range nodes {
			b.Add(fmt.Sprintf("n%d", i), "uid")
			b.Add(fmt.Sprintf("n%d", i), "uid")
		}
		synctest.Wait()
		if got := b.take(); len(got) != nodes {
			t.Fatalf("%d writes at the start, want %d", len(got), nodes)
		}
		for second := range 100 {
			time.Sleep(time.Second)
			synctest.Wait()
			if got := b.take(); len(got) != 4 {
				t.Fatalf("second %d: %d renewals of %d nodes in 100 s, want 4: %v", second, len(got), nodes, got)
			}
		}
	})
}

func TestLeaseSaysWhoseItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLeaseBed(t, 10*time.Second)
		b.Add("n", "uid-n")
		synctest.Wait()
		got := b.server.stored["n"]
		holder, seconds, now := "n", int32(40), metav1.NowMicro()
		want := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Namespace: "kube-node-lease", ResourceVersion: "1", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "uid-n"}}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestLeaseOfAnEarlierRunIsRenewedWithOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLeaseBed(t, 10*time.Second)
		b.server.meddle("n", b.leaseOf("n", &heartbeat{}))
		if err := b.Recall(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.Add("n", "uid")
		synctest.Wait()
		if diff := cmp.Diff([]string{"update n @0"}, b.take()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestLeaseThatSomebodyTookOrChangedIsClaimedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLeaseBed(t, 10*time.Second)
		b.Add("n", "uid")
		synctest.Wait()
		b.server.meddle("n", b.leaseOf("n", &heartbeat{}))
		b.take()
		time.Sleep(11 * time.Second)
		synctest.Wait()
		want := []string{"update n @0.25", "create n @0.25", "get n @0.25", "update n @0.25", "update n @10.25"}
		if diff := cmp.Diff(want, b.take()); diff != "" {
			t.Error(diff)
		}
		b.server.meddle("n", nil)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"update n @20.25", "create n @20.25", "update n @30.25"}, b.take()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestNoHeartbeatAfterRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLeaseBed(t, 10*time.Second)
		b.Add("n", "uid")
		synctest.Wait()
		b.take()
		b.Remove("n")
		b.Remove("never there")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := b.take(); len(got) > 0 {
			t.Errorf("writes %v", got)
		}
	})
}
