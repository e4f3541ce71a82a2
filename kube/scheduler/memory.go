package scheduler

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
)

// memoryEvery is the least time between two writes of what a queue has spent and was promised: the next
// leader goes on from what is at most that old.
const memoryEvery = time.Minute

// memory is what must outlast this process. The loop keeps it.
type memory struct {
	spendings map[string]engine.QueueUsage // by queue
	written   map[string]time.Time         // when a queue's was last written; the writer's
}

func newMemory() memory {
	return memory{spendings: make(map[string]engine.QueueUsage), written: make(map[string]time.Time)}
}

// note keeps what the engine remembers from now on.
func (m *memory) note(changes []engine.Change) {
	for i := range changes {
		switch c := &changes[i]; {
		case c.Usage != nil:
			m.spendings[c.Usage.Queue] = *c.Usage
		case c.Gone != nil && c.Gone.Kind == engine.KindUsage:
			delete(m.spendings, c.Gone.Key)
		}
	}
}

// ledger is what queues owe each other, have spent, and were promised, at one moment of the loop.
type ledger struct {
	at        time.Time
	gpu       string                      // the resource that counts GPUs
	uses      map[string]*engine.QueueUse // nil: the loop had no time
	promises  []engine.Promise
	spendings map[string]engine.QueueUsage
	promised  map[string][]v1alpha1.QueuePromise // by queue
	memory    *memory
}

// ledger asks the loop for it. Where it has no time they are empty, and what statuses say stays.
func (s *scheduler) ledger(ctx context.Context) *ledger {
	b := &ledger{at: time.Now(), gpu: s.gpu(), memory: &s.memory}
	err := s.ask(ctx, func() {
		b.at, b.promises, b.spendings, b.uses = time.Now(), s.plan.Promises, maps.Clone(s.memory.spendings), s.uses()
	})
	if err != nil {
		b.uses = nil
	}
	return b
}

// sort gives promises to the queues of their workloads.
func (b *ledger) sort(f *cluster.Feed) {
	b.promised = make(map[string][]v1alpha1.QueuePromise)
	for _, p := range b.promises {
		queue := f.QueueOf(p.Gang)
		if list := b.promised[queue]; queue != "" && len(list) < v1alpha1.MaxPromises {
			start := p.Start.Add(time.Second - 1).Truncate(time.Second) // times are kept in seconds: rather late than not kept
			b.promised[queue] = append(list, v1alpha1.QueuePromise{Workload: p.Gang, Since: metav1.NewTime(p.Since.Truncate(time.Second)), Start: metav1.NewTime(start)})
		}
	}
}

// amounts adds what the queue has that is not its own, what of it others have, and what is its due.
func (b *ledger) amounts(use *engine.QueueUse, key string, out v1alpha1.QueueUse) v1alpha1.QueueUse {
	if use == nil || !b.quotas(key) {
		return out
	}
	name, _ := convert.ResourceOf(key)
	quantity := func(r engine.Resources) *resource.Quantity {
		q := convert.QuantityOf(name, r.Of(key))
		return &q
	}
	out.Borrowed, out.Lent, out.FairShare = quantity(use.Borrowed), quantity(use.Lent), quantity(use.Share)
	return out
}

// quotas says whether any queue is promised some of it.
func (b *ledger) quotas(key string) bool {
	for _, u := range b.uses {
		if a := u.Quota.Of(key); a.Value+a.Milli > 0 {
			return true
		}
	}
	return false
}

// models are the amounts of the GPU models that the queue says something of.
func (b *ledger) models(use *engine.QueueUse, q *v1alpha1.BerthQueue, name string) []v1alpha1.QueueUse {
	if use == nil {
		return nil
	}
	var out []v1alpha1.QueueUse
	for _, r := range q.Spec.Resources {
		if r.Name != name || r.GPUModel == "" {
			continue
		}
		key := convert.QueueResource(name, r.GPUModel)
		out = append(out, b.amounts(use, key, v1alpha1.QueueUse{
			Name: name, GPUModel: r.GPUModel, Used: convert.QuantityOf(name, use.Used.Of(key)), Wanted: convert.QuantityOf(name, use.Wanted.Of(key)),
		}))
	}
	slices.SortFunc(out, func(a, b v1alpha1.QueueUse) int { return strings.Compare(a.GPUModel, b.GPUModel) })
	return out
}

// remember puts what was spent and promised into the status, if that is something else than it says and was not done
// within the last minute.
func (b *ledger) remember(q *v1alpha1.BerthQueue, out *v1alpha1.QueueStatus) {
	last := b.memory.written[q.Name]
	if sp := q.Status.Spending; sp != nil && !sp.At.After(b.at) {
		last = later(last, sp.At.Time) // written by an earlier leader
	}
	if b.uses == nil || b.at.Sub(last) < memoryEvery {
		return
	}
	next := *out
	next.Promises = b.promised[q.Name]
	if sp, ok := b.spendings[q.Name]; ok {
		next.Spending = &v1alpha1.QueueSpending{At: metav1.NewTime(sp.At.Truncate(time.Second)), TotalSeconds: sp.Total, DecayedSeconds: sp.Decayed}
		for _, u := range sp.Users {
			next.Spending.Users = append(next.Spending.Users, v1alpha1.QueueUserSpending{User: u.User, DecayedSeconds: u.Decayed})
		}
		next.GPUHours = resource.NewMilliQuantity(sp.Total*1000/3600, resource.DecimalSI)
		next.Budgets = budgetUses(q, &sp, b.at)
	}
	if sameMemory(out, &next) {
		return
	}
	b.memory.written[q.Name] = b.at
	*out = next
}

// sameMemory says whether the one says as much as the other: what decays by itself is no news.
func sameMemory(a, b *v1alpha1.QueueStatus) bool {
	if !slices.EqualFunc(a.Promises, b.Promises, func(x, y v1alpha1.QueuePromise) bool {
		return x.Workload == y.Workload && x.Since.Equal(&y.Since) && x.Start.Equal(&y.Start)
	}) {
		return false
	}
	if total(a) != total(b) {
		return false
	}
	return slices.EqualFunc(a.Budgets, b.Budgets, func(x, y v1alpha1.QueueBudgetUse) bool {
		return x.Resource == y.Resource && x.From.Equal(&y.From) && x.SpentSeconds == y.SpentSeconds && x.Hours.Cmp(y.Hours) == 0
	})
}

func total(s *v1alpha1.QueueStatus) int64 {
	if s.Spending == nil {
		return 0
	}
	return s.Spending.TotalSeconds
}

// budgetUses are the queue's budgets in the period that is.
func budgetUses(q *v1alpha1.BerthQueue, sp *engine.QueueUsage, now time.Time) []v1alpha1.QueueBudgetUse {
	var out []v1alpha1.QueueBudgetUse
	for i, v := range convert.Queue(q).Budgets {
		from, to := v.Span(now)
		use := v1alpha1.QueueBudgetUse{Resource: v.Resource, From: metav1.NewTime(from), To: metav1.NewTime(to), Hours: q.Spec.Budgets[i].Hours}
		if counted, _ := v.Span(sp.At); i < len(sp.Spent) && counted.Equal(from) {
			use.SpentSeconds = sp.Spent[i]
		}
		use.SpentHours = hours(v.Resource, use.SpentSeconds)
		out = append(out, use)
	}
	return out
}

// hours is an amount of the resource held for so many seconds, in the engine's units, in hours.
func hours(name string, seconds int64) resource.Quantity {
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return convert.Quantity(name, seconds/3600)
	}
	return *resource.NewMilliQuantity(seconds*1000/3600, resource.DecimalSI)
}

// restoreMemory gives the engine back what queues had spent and were promised. What was spent by a later time than now, by the clock of the
// process that wrote it, counts as spent by now: otherwise nothing would be charged until then.
func (s *scheduler) restoreMemory(now time.Time) {
	for _, q := range s.feed.Queues() {
		if sp := q.Status.Spending; sp != nil {
			v := engine.QueueUsage{Queue: q.Name, At: sooner(sp.At.UTC(), now.UTC().Truncate(time.Second)), Total: sp.TotalSeconds, Decayed: sp.DecayedSeconds, Spent: spentOf(q)}
			for _, u := range sp.Users {
				v.Users = append(v.Users, engine.UserUsage{User: u.User, Decayed: u.DecayedSeconds})
			}
			slices.SortFunc(v.Users, func(a, b engine.UserUsage) int { return strings.Compare(a.User, b.User) })
			s.memory.spendings[q.Name] = v
			s.inbox.Put(engine.Change{Usage: &v})
		}
		for _, p := range q.Status.Promises {
			s.inbox.Put(engine.Change{Promise: &engine.Promise{Gang: p.Workload, Since: p.Since.UTC(), Start: p.Start.UTC()}})
		}
	}
}

// spentOf is what the status says of each budget of the spec.
func spentOf(q *v1alpha1.BerthQueue) []int64 {
	var out []int64
	for i, v := range convert.Queue(q).Budgets {
		spent := int64(0)
		if i < len(q.Status.Budgets) && q.Status.Budgets[i].Resource == v.Resource {
			spent = q.Status.Budgets[i].SpentSeconds
		}
		out = append(out, spent)
	}
	return out
}
