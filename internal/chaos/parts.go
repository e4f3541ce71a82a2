package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// partsFleet has pools whose GPUs reach pods in every way that there is, each under a label of its own.
const partsFleet = `apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: whole}
spec: {nodes: 2, gpus: [{model: h100, count: 8}], labels: {gpu-pool: whole}}
---
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: mig}
spec: {nodes: 2, gpus: [{model: A100-SXM4-80GB, count: 4}], labels: {gpu-pool: mig}, mig: {strategy: mixed, config: all-balanced}}
---
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: shared}
spec: {nodes: 2, gpus: [{model: T4, count: 2}], labels: {gpu-pool: shared, nvidia.com/device-plugin.config: time-slicing-4}}
---
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: hami}
spec: {nodes: 2, gpus: [{model: L4, count: 2}], labels: {gpu-pool: hami}, sharing: hami}
---
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: fraction}
spec: {nodes: 1, gpus: [{model: L40S, count: 2}], labels: {gpu-pool: fraction}, sharing: berth}
---
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: claimed}
spec: {nodes: 2, gpus: [{model: A100-SXM4-80GB, count: 4}], labels: {gpu-pool: claimed}, advertise: dra}
---
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: cut}
spec: {nodes: 2, gpus: [{model: H100-SXM5-80GB, count: 2}], labels: {gpu-pool: cut}, advertise: dra, mig: {strategy: dynamic}}
---
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: shares}
spec: {nodes: 1, gpus: [{model: L4, count: 2}], labels: {gpu-pool: shares}, advertise: dra, sharing: hami}
`

// partsWorld is a cluster on which pods with parts of GPUs live and end, and whose one process, with API server, scheduler and fleet, is
// killed now and then.
type partsWorld struct {
	opts    options
	tally   *tally
	cluster *cluster
	client  kubernetes.Interface
	rand    *rand.Rand
	alive   []partsLife
	made    int

	mu      sync.Mutex
	referee *partsReferee
	phases  map[string]corev1.PodPhase // of all pods that there are
	synced  bool                       // the referee follows both watches
}

const (
	crowd      = 70  // pods that are alive at a time, at most
	livesAKill = 400 // about how many lives pass between two kills
	// goneWithin bounds the release of all that pods had: their grace, the node lifecycle after a kill, and claims' controllers.
	goneWithin = 3 * time.Minute
)

// playParts lets pods live and returns how many findings there were.
func playParts(ctx context.Context, o options, out io.Writer) (found int, err error) {
	w := &partsWorld{
		opts: o, tally: newTally(out), rand: rand.New(rand.NewPCG(o.seed, 17)),
		referee: newPartsReferee(), phases: make(map[string]corev1.PodPhase),
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var children sync.WaitGroup
	end := func() { stop(); children.Wait() }
	defer end()
	w.tally.say("seed %d, %d lives, logs in %s", o.seed, o.parts, o.dir)
	if w.cluster, err = newCluster(o, partsFleet, func(_ string, how *exitInfo) {
		w.tally.find(finding{"crash", "cluster", how.String()})
	}); err != nil {
		return 0, err
	}
	children.Go(func() { w.cluster.run(running) })
	if err := w.begin(ctx); err != nil {
		return 0, err
	}
	children.Go(func() { w.judge(running) })
	err = w.live(ctx)
	if err == nil {
		err = w.emptyAndFill(ctx)
	}
	end()
	for kind, n := range w.referee.judged {
		w.tally.counts["judged: "+kind] = n
	}
	for _, k := range partsKinds {
		if n := w.referee.judged[k.name]; err == nil && n < o.parts/len(partsKinds)/4 {
			w.tally.find(finding{"too few for a test", k.name, fmt.Sprintf("%d pods ran", n)})
		}
	}
	w.tally.report()
	return w.tally.findings(), err
}

// begin waits for the cluster and for what its drivers and plugins offer, and makes what pods refer to.
func (w *partsWorld) begin(ctx context.Context) error {
	if err := w.cluster.ready(ctx, startWithin); err != nil {
		return err
	}
	config, err := w.cluster.admin()
	if err != nil {
		return err
	}
	if w.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := w.client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for _, t := range partsTemplates() {
		if _, err := w.client.ResourceV1().ResourceClaimTemplates(namespace).Create(ctx, t, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// live makes pods and ends them until as many have lived as were asked for.
func (w *partsWorld) live(ctx context.Context) error {
	kill := w.nextKill()
	for w.made < w.opts.parts {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted")
		}
		if w.made >= kill {
			if err := w.kill(ctx); err != nil {
				return err
			}
			kill = w.made + w.nextKill()
		}
		if n := len(w.alive); n < crowd && (n == 0 || w.rand.IntN(2) == 0) {
			w.come(ctx)
		} else {
			w.leave(ctx, w.rand.IntN(len(w.alive)))
		}
		lasting(ctx, time.Duration(w.rand.IntN(30))*time.Millisecond)
		if w.made%1000 < 2 && w.made > 0 {
			w.tally.say("%d pods", w.made)
		}
	}
	return nil
}

func (w *partsWorld) nextKill() int { return livesAKill/2 + w.rand.IntN(livesAKill) }

// kill ends the process with everything in it at once, while pods come and go.
func (w *partsWorld) kill(ctx context.Context) error {
	w.tally.count("kills of the cluster")
	before := w.cluster.pid()
	w.cluster.kill(0)
	for w.cluster.pid() == before || w.cluster.pid() == 0 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		lasting(ctx, 50*time.Millisecond)
	}
	return w.cluster.ready(ctx, startWithin)
}

// come makes the objects of a new workload. What cannot be made, because the server is not there, is not.
func (w *partsWorld) come(ctx context.Context) {
	kind := partsKinds[w.rand.IntN(len(partsKinds))]
	w.made++
	pods, claim := kind.make(w.rand, fmt.Sprintf("%s-%d", kind.name, w.made))
	w.made += len(pods) - 1
	w.create(ctx, kind.name, pods, claim)
}

func (w *partsWorld) create(ctx context.Context, kind string, pods []*corev1.Pod, claim *resourcev1.ResourceClaim) {
	life := partsLife{}
	if claim != nil {
		if _, err := w.client.ResourceV1().ResourceClaims(namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			w.tally.count("objects that could not be made")
			return
		}
		life.claim = claim.Name
	}
	for _, p := range pods {
		p.Labels = map[string]string{labelKind: kind}
		if _, err := w.client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			w.tally.count("objects that could not be made")
			continue
		}
		life.pods = append(life.pods, p.Name)
	}
	w.alive = append(w.alive, life)
}

// partsLife is the objects of a workload.
type partsLife struct {
	pods  []string
	claim string
}

// leave deletes a workload, running or not, sometimes without grace.
func (w *partsWorld) leave(ctx context.Context, i int) {
	life := w.alive[i]
	how := metav1.DeleteOptions{}
	if w.rand.IntN(8) == 0 {
		how.GracePeriodSeconds = new(int64)
	}
	for _, name := range life.pods {
		if err := w.client.CoreV1().Pods(namespace).Delete(ctx, name, how); err != nil && !apierrors.IsNotFound(err) {
			return // and is tried again
		}
	}
	if life.claim != "" {
		if err := w.client.ResourceV1().ResourceClaims(namespace).Delete(ctx, life.claim, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return
		}
	}
	w.alive = slices.Delete(w.alive, i, i+1)
}

// emptyAndFill ends all pods and expects that nothing is held any more; then it asks for all that there is, and expects to get it.
func (w *partsWorld) emptyAndFill(ctx context.Context) error {
	for len(w.alive) > 0 && ctx.Err() == nil {
		w.leave(ctx, 0)
	}
	w.expect(ctx, "held after the last pod", w.left)
	for _, k := range partsKinds {
		for i := range k.fill {
			pods, claim := k.whole(fmt.Sprintf("fill-%s-%d", k.name, i))
			w.create(ctx, k.name, pods, claim)
		}
	}
	w.tally.say("all that there is is asked for")
	w.expect(ctx, "does not run, though all is free", w.waiting)
	for len(w.alive) > 0 && ctx.Err() == nil {
		w.leave(ctx, 0)
	}
	w.expect(ctx, "held after all were filled", w.left)
	return ctx.Err()
}

// expect waits until nothing is wrong, and takes down what is when the time is over.
func (w *partsWorld) expect(ctx context.Context, kind string, look func() []string) {
	var wrong []string
	for until := time.Now().Add(goneWithin); time.Now().Before(until) && ctx.Err() == nil; lasting(ctx, 500*time.Millisecond) {
		w.mu.Lock()
		synced := w.synced
		wrong = look()
		w.mu.Unlock()
		if synced && len(wrong) == 0 {
			return
		}
	}
	for _, text := range wrong {
		w.tally.find(finding{kind, text, "for " + goneWithin.String()})
	}
}

// left is what is still there when all pods are deleted.
func (w *partsWorld) left() (out []string) {
	out = w.referee.idle()
	for name := range w.phases {
		out = append(out, "pod "+name)
	}
	for _, c := range w.referee.claims {
		out = append(out, "claim "+c.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (w *partsWorld) waiting() (out []string) {
	for _, life := range w.alive {
		for _, name := range life.pods {
			if phase := w.phases[name]; phase != corev1.PodRunning {
				out = append(out, fmt.Sprintf("pod %s (%s)", name, phase))
			}
		}
	}
	return append(out, w.referee.idle()...)
}

// judge follows pods and claims until ctx ends, and has the referee judge each change. After a cut it begins anew from what there is.
func (w *partsWorld) judge(ctx context.Context) {
	for ctx.Err() == nil {
		w.follow(ctx)
		w.mu.Lock()
		w.synced = false
		w.mu.Unlock()
		lasting(ctx, time.Second)
	}
}

func (w *partsWorld) follow(ctx context.Context) {
	pods, err := w.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	claims, err := w.client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	podChanges, err := w.client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: pods.ResourceVersion})
	if err != nil {
		return
	}
	defer podChanges.Stop()
	claimChanges, err := w.client.ResourceV1().ResourceClaims(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: claims.ResourceVersion})
	if err != nil {
		return
	}
	defer claimChanges.Stop()
	w.anew(ctx, pods.Items, claims.Items)
	for {
		var e watch.Event
		var ok bool
		select {
		case e, ok = <-podChanges.ResultChan():
		case e, ok = <-claimChanges.ResultChan():
		case <-ctx.Done():
		}
		if !ok {
			return
		}
		w.saw(ctx, e)
	}
}

// anew has the referee forget what was and judge what there is.
func (w *partsWorld) anew(ctx context.Context, pods []corev1.Pod, claims []resourcev1.ResourceClaim) {
	w.mu.Lock()
	clear(w.referee.pods)
	clear(w.referee.claims)
	clear(w.phases)
	w.mu.Unlock()
	w.look(ctx)
	for i := range pods {
		w.saw(ctx, watch.Event{Type: watch.Added, Object: &pods[i]})
	}
	for i := range claims {
		w.saw(ctx, watch.Event{Type: watch.Added, Object: &claims[i]})
	}
	w.mu.Lock()
	w.synced = true
	w.mu.Unlock()
}

// look takes in what nodes and drivers offer.
func (w *partsWorld) look(ctx context.Context) {
	nodes, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return // the watches end too
	}
	offers, err := w.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.referee.hardware(nodes.Items, offers.Items); err != nil {
		w.tally.find(finding{"hardware that cannot be read", "nodes", err.Error()})
	}
}

// saw takes in a change and judges it.
func (w *partsWorld) saw(ctx context.Context, e watch.Event) {
	name, judge := w.take(e)
	if judge == nil || len(w.locked(judge)) == 0 {
		return
	}
	w.look(ctx) // what drivers and plugins offer may have come after it was last read
	if _, is := e.Object.(*corev1.Pod); !is {
		w.sentence(name, judge)
		return
	}
	// A kubelet knows that a pod has ended before it says so, and may give its devices to the next. Who holds them in truth holds them for
	// longer than that.
	time.AfterFunc(slack, func() { w.sentence(name, judge) })
}

func (w *partsWorld) sentence(name string, judge func() []string) {
	for _, text := range w.locked(judge) {
		w.tally.find(finding{"devices", name, text})
	}
}

func (w *partsWorld) locked(judge func() []string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return judge()
}

// take notes a change. judge is nil where there is nothing to judge.
func (w *partsWorld) take(e watch.Event) (name string, judge func() []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	deleted := e.Type == watch.Deleted
	switch o := e.Object.(type) {
	case *corev1.Pod:
		if w.phases[o.Name] = o.Status.Phase; deleted {
			delete(w.phases, o.Name)
		}
		if w.referee.tookPod(o, deleted) {
			return o.Name, func() []string {
				if now := w.referee.pods[o.UID]; now != nil {
					return w.referee.ofPod(now)
				}
				return nil
			}
		}
	case *resourcev1.ResourceClaim:
		if w.referee.tookClaim(o, deleted) {
			return o.Name, func() []string { return w.referee.ofClaim(o) }
		}
	}
	return "", nil
}
