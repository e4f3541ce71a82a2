package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// namespace is where all work is.
const namespace = "chaos"

// world is everything that runs.
type world struct {
	opts    options
	tally   *tally
	cluster *cluster
	config  *rest.Config // of an administrator, straight to the API server
	client  kubernetes.Interface
	berths  []*berth
	seen    *observer
	work    *work
	smaller string // the pool that has one node less than it could, while at rest; "": none

	children sync.WaitGroup
}

// startWithin bounds a start of the cluster, which takes some seconds on an idle machine.
const startWithin = 3 * time.Minute

// play starts the world, breaks it for as long as was asked, and returns how many findings there were.
func play(ctx context.Context, o options, out io.Writer) (found int, err error) {
	w := &world{opts: o, tally: newTally(out)}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	end := func() { stop(); w.children.Wait() }
	defer end()
	w.tally.say("seed %d, for %v, logs in %s", o.seed, o.total, o.dir)
	if err := w.start(ctx, running); err != nil {
		return 0, err
	}
	w.tally.say("the cluster and %d schedulers run", len(w.berths))
	err = w.rounds(ctx)
	end()
	w.tally.report()
	return w.tally.findings(), err
}

// start sets everything going; what it starts lives as long as running.
func (w *world) start(ctx, running context.Context) (err error) {
	if w.cluster, err = newCluster(w.opts, fleet, w.died); err != nil {
		return err
	}
	w.children.Go(func() { w.cluster.run(running) })
	if err := w.cluster.ready(ctx, startWithin); err != nil {
		return err
	}
	if w.config, err = w.cluster.admin(); err != nil {
		return err
	}
	if w.client, err = kubernetes.NewForConfig(w.config); err != nil {
		return err
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := w.client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := w.makeTeams(ctx); err != nil {
		return err
	}
	if err := w.startBerths(running); err != nil {
		return err
	}
	w.seen = observe(running, w.client, w.tally)
	w.children.Go(func() { referees(running, w.client, w.seen.known, w.tally) })
	w.work = newWork(w)
	return nil
}

// died takes note of a process that ended though nobody here ended it. A scheduler that lost its lease may; one
// that crashed, and a cluster in any case, may not.
func (w *world) died(name string, how *exitInfo) {
	w.tally.count(name + " ended by itself")
	if name == "cluster" || how.crashed() {
		w.tally.find(finding{kind: "crash", subject: name, what: how.String()})
		return
	}
	w.tally.say("%s ended by itself: %v", name, how)
}

// aRound is about how long one takes, without the rest after it.
const aRound = time.Minute

// rounds goes from faults to rest and back. Each round draws from a source of its own, so that a round is the
// same whatever happened in the one before.
func (w *world) rounds(ctx context.Context) error {
	end := time.Now().Add(w.opts.total)
	for n := uint64(0); ctx.Err() == nil && (n == 0 || time.Until(end) > aRound/2); n++ {
		w.tally.say("round %d", n+1)
		r := rand.New(rand.NewPCG(w.opts.seed, n))
		w.round(ctx, r)
		if err := w.rested(ctx, r, n%2 == 0); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted")
	}
	return nil
}

// rested lets the world come to rest, of which something is missing for that time: the first Berth's stand-in, so
// that the one inside must be able to lead, or one node.
func (w *world) rested(ctx context.Context, r *rand.Rand, alone bool) error {
	w.smaller = ""
	if !alone {
		w.smaller = pools[r.IntN(len(pools))]
		w.tally.say("%s loses a node for this rest", w.smaller)
		return w.rest(ctx)
	}
	w.tally.say("scheduler 0 is paused for this rest")
	w.berths[0].signal(syscall.SIGSTOP)
	defer w.berths[0].signal(syscall.SIGCONT)
	return w.rest(ctx)
}

// round makes work and trouble at the same time, and returns when the last of the trouble is over.
func (w *world) round(ctx context.Context, r *rand.Rand) {
	working, stop := context.WithCancel(ctx)
	var busy sync.WaitGroup
	source := rand.New(rand.NewPCG(r.Uint64(), 2))
	busy.Go(func() { w.work.proceed(working, source) })
	w.strike(ctx, r)
	stop()
	busy.Wait()
	w.work.pile(ctx, source)
}
