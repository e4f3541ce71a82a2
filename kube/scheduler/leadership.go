package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// leadership is one time that this process leads: from when it gets the lease until its writes end. It is renewed with
// the lease and, once over, never comes back: a renewal that was answered too late does not help. A nil leadership is that
// of a scheduler that has no rivals, and lasts.
//
// The lease is another's at the earliest leaseFor after the last renewal was sent. Writes end leaseMargin before that,
// by the monotonic clock, so that the server is done with what it was sent.
//
//	sent        answered                    no write after this       another may lead
//	 |-------------|-----------------------------------|------------------------|
//	 0                                       leaseFor-leaseMargin           leaseFor
type leadership struct {
	identity string
	ctx      context.Context // ends with it
	end      context.CancelFunc
	timer    *time.Timer

	mu    sync.Mutex
	sent  time.Time // the last renewal that was answered
	until time.Time // of writes; zero: it has not begun
	lease string    // by what it leads, as bindings say it
	open  time.Time // until when the server may work on a write that ended here without an answer
}

// leaseMargin is what the server may take to end a request at the deadline that it was told.
const leaseMargin = time.Second

// errNotLeading is of a write that could meet those of another leader.
var errNotLeading = errors.New("not sent: this scheduler does not lead, or not for long enough")

func newLeadership(identity string) *leadership {
	l := &leadership{identity: identity}
	l.ctx, l.end = context.WithCancel(context.Background())
	l.timer = time.AfterFunc(time.Hour, l.end)
	l.timer.Stop()
	return l
}

// renewed notes that the lease was this process's when the server answered a request that was sent then.
func (l *leadership) renewed(sent time.Time, lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := sent.Add(leaseFor - leaseMargin)
	if l.ctx.Err() != nil || !l.until.IsZero() && !time.Now().Before(l.until) {
		return
	}
	l.sent, l.until, l.lease = sent, until, leaseMark(lease)
	l.timer.Reset(time.Until(until))
}

// leaseMark says which lease, held by whom for the which time: "NAME/UID/TRANSITIONS/HOLDER". The policy berth-leader reads it.
func leaseMark(l *coordinationv1.Lease) string {
	holder, transitions := "", int32(0)
	if l.Spec.HolderIdentity != nil {
		holder = *l.Spec.HolderIdentity
	}
	if l.Spec.LeaseTransitions != nil {
		transitions = *l.Spec.LeaseTransitions
	}
	return fmt.Sprintf("%s/%s/%d/%s", l.Name, l.UID, transitions, holder)
}

// mark is what bindings say of it, "" where there are no rivals.
func (l *leadership) mark() string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease
}

// unsure notes that the server may work on a write until then, though it is not waited for here.
func (l *leadership) unsure(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until.After(l.open) {
		l.open = until
	}
}

// settled says whether the server is done with all writes that were sent.
func (l *leadership) settled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !time.Now().Before(l.open)
}

// context ends with the leadership.
func (l *leadership) context() context.Context {
	if l == nil {
		return context.Background()
	}
	return l.ctx
}

// bound gives a write its deadline: attemptFor, and no later than half of the time that the last renewal vouches for. The
// other half is the server's: it is told how long it may work on the request, which it counts from when the request comes,
// and that may be at the deadline. Renewals that come meanwhile do not prolong it.
func (l *leadership) bound(ctx context.Context) (context.Context, context.CancelFunc, error) {
	until := time.Now().Add(attemptFor)
	if l != nil {
		l.mu.Lock()
		vouched := l.until
		l.mu.Unlock()
		if l.ctx.Err() != nil || !time.Now().Before(vouched) {
			return nil, nil, errNotLeading
		}
		if half := time.Now().Add(time.Until(vouched) / 2); half.Before(until) {
			until = half
		}
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	return ctx, cancel, nil
}

// leadershipKey is of the leadership in a context.
type leadershipKey struct{}

// under has everything that is sent with the context bounded by the leadership.
func (l *leadership) under(ctx context.Context) context.Context {
	return context.WithValue(ctx, leadershipKey{}, l)
}

// leadershipOf returns nil where there is none.
func leadershipOf(ctx context.Context) *leadership {
	l, _ := ctx.Value(leadershipKey{}).(*leadership)
	return l
}

// fence is what all writes of a scheduler with rivals go through on their way to the server. One that no leadership
// bounds is not sent. The server is told the deadline, so that a request which is held up in the server, where the end of
// the connection may not be noticed, ends there too.
type fence struct{ next http.RoundTripper }

func (f fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return f.next.RoundTrip(r)
	}
	l := leadershipOf(r.Context())
	if l == nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, errNotLeading)
	}
	query := r.URL.Query()
	if query.Has("dryRun") { // it writes nothing
		return f.next.RoundTrip(r)
	}
	ctx, cancel, err := l.bound(r.Context())
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
	}
	until, _ := ctx.Deadline()
	left := time.Until(until)
	r = r.Clone(ctx)
	query.Set("timeout", strconv.FormatInt(max(1, left.Milliseconds()), 10)+"ms")
	r.URL.RawQuery = query.Encode()
	answer, err := f.next.RoundTrip(r)
	if err != nil {
		l.unsure(until.Add(left))
		cancel()
		return nil, err
	}
	answer.Body = endingBody{answer.Body, cancel}
	return answer, nil
}

// leases is the API's, and tells the leadership who holds what passes through.
type leases struct {
	client kubernetes.Interface
	of     *leadership
}

func (c leases) Leases(namespace string) coordinationclient.LeaseInterface {
	return leaseClient{c.client.CoordinationV1().Leases(namespace), c.of}
}

type leaseClient struct {
	coordinationclient.LeaseInterface
	of *leadership
}

func (c leaseClient) Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	sent := time.Now()
	got, err := c.LeaseInterface.Create(ctx, lease, o)
	return c.saw(sent, got, err)
}

// Update leaves renewals out that come too soon: client-go renews a lease as often as it looks at one.
func (c leaseClient) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	sent := time.Now()
	if c.of.holds(lease) && c.of.fresh(sent) {
		return lease, nil
	}
	got, err := c.LeaseInterface.Update(ctx, lease, o)
	return c.saw(sent, got, err)
}

// Get ends a leadership whose lease another has taken: it need not wait until renewing has failed for long enough.
func (c leaseClient) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	got, err := c.LeaseInterface.Get(ctx, name, o)
	if err == nil && c.of.begun() && !c.of.holds(got) {
		c.of.end()
	}
	return got, err
}

func (c leaseClient) saw(sent time.Time, lease *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
	if err == nil && c.of.holds(lease) {
		c.of.renewed(sent, lease)
	}
	return lease, err
}

// fresh says whether the lease was renewed so lately that another renewal would change nothing.
func (l *leadership) fresh(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx.Err() == nil && !l.sent.IsZero() && now.Sub(l.sent) < renewEvery
}

func (l *leadership) holds(lease *coordinationv1.Lease) bool {
	return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == l.identity
}

func (l *leadership) begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.until.IsZero()
}
