package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A fault is drawn first, and is then the same for the same source; only the moment at which it strikes is not.
type fault struct {
	name string
	draw func(r *rand.Rand) (what string, strike func(context.Context, *world))
}

// deck is the faults of one round: every kind in every round, those that matter most more than once.
var deck = []fault{
	{"scheduler killed", killScheduler}, {"scheduler killed", killScheduler}, {"scheduler killed", killScheduler},
	{"scheduler paused", pauseScheduler}, {"scheduler paused", pauseScheduler},
	{"lease taken", takeLease},
	{"cluster killed", killCluster},
	{"cluster paused", pauseCluster},
	{"watches cut", cutWatches},
	{"errors injected", storm}, {"errors injected", storm},
	{"answers lost", loseAnswers}, {"answers lost", loseAnswers},
	{"connections refused", refuseConnections}, {"connections refused", refuseConnections},
	{"node deleted while binding", deleteNode}, {"node deleted while binding", deleteNode},
	{"node cordoned", cordonNode},
	{"node without power", powerOff},
	{"device plugin deleted", deletePlugin},
	{"pool made smaller", shrinkPool},
}

// blow is a fault that was drawn: when, after the one before, and what.
type blow struct {
	gap        time.Duration
	name, what string
	strike     func(context.Context, *world)
}

// deal puts the deck into an order and draws each fault.
func deal(r *rand.Rand) []blow {
	out := make([]blow, 0, len(deck))
	for _, i := range r.Perm(len(deck)) {
		b := blow{gap: between(r, 500*time.Millisecond, 5*time.Second), name: deck[i].name}
		b.what, b.strike = deck[i].draw(r)
		out = append(out, b)
	}
	return out
}

// strike carries out a round's faults, several at a time, and returns when the last is over.
func (w *world) strike(ctx context.Context, r *rand.Rand) {
	var under sync.WaitGroup
	defer under.Wait()
	for _, b := range deal(r) {
		lasting(ctx, b.gap)
		if ctx.Err() != nil {
			return
		}
		w.tally.count("fault: " + b.name)
		w.tally.say("%s: %s", b.name, b.what)
		under.Go(func() { b.strike(ctx, w) })
	}
}

func lasting(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

func killScheduler(r *rand.Rand) (string, func(context.Context, *world)) {
	i, again := r.IntN(len(berthNames)), between(r, 0, 10*time.Second)
	return fmt.Sprintf("%d, back after %s", i, seconds(again)), func(_ context.Context, w *world) { w.berths[i].kill(again) }
}

// pauseScheduler makes a leader that does not know that it is one no more.
func pauseScheduler(r *rand.Rand) (string, func(context.Context, *world)) {
	i, d := r.IntN(len(berthNames)), between(r, 2*time.Second, 22*time.Second)
	return fmt.Sprintf("%d for %s", i, seconds(d)), func(ctx context.Context, w *world) { pause(ctx, w.berths[i].process, d) }
}

// takeLease deposes a leader: somebody who never does anything has its lease until it runs out.
func takeLease(r *rand.Rand) (string, func(context.Context, *world)) {
	name := berthNames[r.IntN(len(berthNames))]
	return "of " + name, func(ctx context.Context, w *world) {
		patch := fmt.Appendf(nil, `{"spec":{"holderIdentity":"chaos","renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
		_, err := w.client.CoordinationV1().Leases("kube-system").Patch(ctx, name+"-scheduler", types.MergePatchType, patch, metav1.PatchOptions{})
		w.try("take lease", err)
	}
}

func pause(ctx context.Context, p *process, d time.Duration) {
	p.signal(syscall.SIGSTOP)
	lasting(ctx, d)
	p.signal(syscall.SIGCONT)
}

// killCluster ends etcd, API server, controllers, stock scheduler, kubelets and the Berth inside, at once.
func killCluster(r *rand.Rand) (string, func(context.Context, *world)) {
	again := between(r, 0, 5*time.Second)
	return "back after " + seconds(again), func(ctx context.Context, w *world) {
		w.cluster.kill(again)
		lasting(ctx, again+time.Second)
	}
}

// pauseCluster makes requests hang: etcd and the API server answer nobody.
func pauseCluster(r *rand.Rand) (string, func(context.Context, *world)) {
	d := between(r, 2*time.Second, 20*time.Second)
	return "for " + seconds(d), func(ctx context.Context, w *world) { pause(ctx, w.cluster.process, d) }
}

func cutWatches(r *rand.Rand) (string, func(context.Context, *world)) {
	return "of all schedulers", func(_ context.Context, w *world) {
		for _, b := range w.berths {
			b.proxy.cut()
		}
	}
}

// storm answers writes with errors in the server's place.
func storm(r *rand.Rand) (string, func(context.Context, *world)) {
	bad := weather{conflict: share(r), busy: share(r), broken: share(r), slow: share(r)}
	what := fmt.Sprintf("409 %.2f, 429 %.2f, 500 %.2f, slow %.2f", bad.conflict, bad.busy, bad.broken, bad.slow)
	return under(r, what, bad)
}

// loseAnswers carries writes out and does not say so, which is the hardest to get right.
func loseAnswers(r *rand.Rand) (string, func(context.Context, *world)) {
	bad := weather{lost: 2 * share(r), dropped: share(r)}
	return under(r, fmt.Sprintf("answers %.2f, requests %.2f", bad.lost, bad.dropped), bad)
}

func share(r *rand.Rand) float64 { return 0.05 + 0.2*r.Float64() }

// under puts the schedulers outside under the weather for a while.
func under(r *rand.Rand, what string, bad weather) (string, func(context.Context, *world)) {
	d := between(r, 3*time.Second, 15*time.Second)
	return fmt.Sprintf("%s for %s", what, seconds(d)), func(ctx context.Context, w *world) {
		for _, b := range w.berths {
			b.proxy.turn(bad)
		}
		lasting(ctx, d)
		for _, b := range w.berths {
			b.proxy.turn(weather{})
		}
	}
}

// refuseConnections keeps one scheduler from the API server, which others reach.
func refuseConnections(r *rand.Rand) (string, func(context.Context, *world)) {
	i, d := r.IntN(len(berthNames)), between(r, 3*time.Second, 20*time.Second)
	return fmt.Sprintf("of scheduler %d for %s", i, seconds(d)), func(ctx context.Context, w *world) {
		w.berths[i].proxy.turn(weather{closed: true})
		lasting(ctx, d)
		w.berths[i].proxy.turn(weather{})
	}
}
