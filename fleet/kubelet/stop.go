package kubelet

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/fleet/shell"
)

// leastGrace is what a process gets between SIGTERM and SIGKILL even if its preStop hook took all the
// time there was.
const leastGrace = 2 * time.Second

// stopAll stops the containers within the grace period: main containers first and together, then the
// sidecars from the last to the first. A shorter grace period that arrives meanwhile is honoured.
func (w *worker) stopAll(ctx context.Context, grace time.Duration) {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	w.mu.Lock()
	w.killer = time.AfterFunc(grace, kill)
	if w.gone {
		w.killer.Reset(0)
	}
	w.mu.Unlock()
	for _, batch := range stopOrder(w.containers) {
		var all sync.WaitGroup
		for _, c := range batch {
			if p := c.process(); p != nil {
				all.Go(func() { c.stop(ctx, p, "Stopping container "+c.name) })
			}
		}
		all.Wait()
	}
	w.mu.Lock()
	w.killer.Stop()
	w.killer = nil
	w.mu.Unlock()
}

func stopOrder(all []*container) [][]*container {
	var first []*container
	var then [][]*container
	for _, c := range all {
		if c.kind == sidecar {
			then = append([][]*container{{c}}, then...)
		} else {
			first = append(first, c)
		}
	}
	return append([][]*container{first}, then...)
}

// stop ends one process: preStop hook, SIGTERM, and SIGKILL when grace ends.
func (c *container) stop(grace context.Context, p *process, why string) {
	c.event(corev1.EventTypeNormal, "Killing", "%s", why)
	hooked := c.preStop(grace, p)
	p.signal(shell.Terminate)
	select {
	case <-p.done:
		return
	case <-grace.Done():
	}
	if hooked {
		select {
		case <-p.done:
			return
		case <-time.After(leastGrace):
		}
	}
	p.signal(shell.Kill)
	<-p.done
}

// restart stops the process for a reason of its own; the worker starts the next instance. A probe that
// is the reason may have a grace period of its own; nil: the pod's.
func (c *container) restart(p *process, probe *corev1.Probe, why string) {
	grace := c.w.current().Spec.TerminationGracePeriodSeconds
	if probe != nil && probe.TerminationGracePeriodSeconds != nil {
		grace = probe.TerminationGracePeriodSeconds
	}
	ctx, cancel := context.WithTimeout(context.Background(), seconds(grace))
	defer cancel()
	c.stop(ctx, p, why)
}

// killAll ends every process at once and waits for them.
func (w *worker) killAll() {
	for _, c := range w.containers {
		if p := c.process(); p != nil {
			p.signal(shell.Kill)
			<-p.done
		}
	}
}

// losePower is the machine going down: processes are gone, nothing is written. What the pod held
// stays booked, and when the machine is back its containers have been lost.
func (w *worker) losePower() {
	now := metav1.Now()
	var dead []*process
	w.change(func() {
		for _, c := range w.containers {
			if c.running != nil {
				dead = append(dead, c.running)
				c.running = nil
			}
			c.lose(now)
		}
		w.sandbox = false
	})
	for _, p := range dead {
		p.signal(shell.Kill)
		<-p.done
	}
	w.rebooted = w.admitted
}
