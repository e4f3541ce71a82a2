package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

const (
	claims     = 10 // rounds in which quota is taken back
	claimed    = 8  // GPUs of each
	claimPause = 500 * time.Millisecond
)

// The queues: one is promised something and idle, the other has nothing of its own and all that there is.
const (
	owner    = "owner"
	borrower = "borrower"
	keyQueue = v1alpha1.KeyQueue // on pods
)

// reclaim measures how fast a queue gets back what it is promised from another that borrowed the whole cluster: from
// the answer to the creation of its last pod until all of them are bound. The pods that are evicted have no grace
// period, since there are no kubelets to end it. First single pods claim it, then gangs.
func reclaim(nodes int) func(context.Context, *cluster, string) ([]figure, error) {
	return func(ctx context.Context, c *cluster, who string) ([]figure, error) {
		pods := nodes * gpusPerNode
		if err := errors.Join(c.makeQueue(ctx, owner, claimed), c.makeQueue(ctx, borrower, 0), c.makeNodes(ctx, nodes), c.borrow(ctx, "full", pods)); err != nil {
			return nil, err
		}
		s, _, err := c.workOff(ctx, who, gatesForGangs, pods)
		if s != nil {
			defer s.stop()
		}
		if err != nil {
			return nil, err
		}
		singles, err := c.claimAll(ctx, "single", c.claimSingles)
		if err != nil {
			return nil, err
		}
		gangs, err := c.claimAll(ctx, "gang", c.claimGang)
		if err != nil {
			return nil, err
		}
		return []figure{
			{figReclaim, milli(at(singles, 50))}, {figReclaimMax, milli(singles[len(singles)-1])},
			{figReclaimGang, milli(at(gangs, 50))}, {figReclaimGangMax, milli(gangs[len(gangs)-1])},
		}, nil
	}
}

// makeQueue makes a queue with a quota of GPUs.
func (c *cluster) makeQueue(ctx context.Context, name string, quota int) error {
	return c.createQueue(ctx, name, fmt.Sprintf(`{"resources":[{"name":%q,"quota":%d}]}`, gpu, quota))
}

// createQueue makes a queue with the spec, in JSON.
func (c *cluster) createQueue(ctx context.Context, name, spec string) error {
	body := fmt.Sprintf(`{"apiVersion":"berth.dev/v1alpha1","kind":"BerthQueue","metadata":{"name":%q},"spec":%s}`, name, spec)
	return c.client.CoreV1().RESTClient().Post().AbsPath("/apis/berth.dev/v1alpha1/berthqueues").
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body([]byte(body)).Do(ctx).Error()
}

// inQueue lets the queue pay for the pod, and takes its grace period away.
func inQueue(p *corev1.Pod, queue string) *corev1.Pod {
	p.Annotations = map[string]string{keyQueue: queue}
	p.Spec.TerminationGracePeriodSeconds = new(int64)
	return p
}

// borrow makes n pods of the queue that has nothing of its own.
func (c *cluster) borrow(ctx context.Context, name string, n int) error {
	return parallel(ctx, n, func(ctx context.Context, i int) error {
		return c.makePod(ctx, inQueue(pod(fmt.Sprintf("%s-%05d", name, i), 1), borrower))
	})
}

// claimAll lets the owner claim its quota several times, and returns how long each took, in order.
func (c *cluster) claimAll(ctx context.Context, name string, claim func(context.Context, string) error) ([]time.Duration, error) {
	var took []time.Duration
	for i := range claims {
		d, err := c.claim(ctx, fmt.Sprintf("%s-%02d", name, i), claim)
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	slices.Sort(took)
	return took, nil
}

// claim makes the owner's pods and waits until they are bound. Then they are removed, and the cluster is filled again.
func (c *cluster) claim(ctx context.Context, name string, claim func(context.Context, string) error) (time.Duration, error) {
	c.watcher.mark()
	if err := claim(ctx, name); err != nil {
		return 0, err
	}
	made := time.Now()
	times, err := c.watcher.await(ctx, claimed, answerLimit)
	if err != nil {
		return 0, err
	}
	took := times[len(times)-1].Sub(made)
	for i := range claimed {
		if err := c.client.CoreV1().Pods(namespace).Delete(ctx, member(name, i, 1).Name, metav1.DeleteOptions{}); err != nil {
			return 0, err
		}
	}
	c.watcher.mark()
	if err := c.borrow(ctx, name+"-again", claimed); err != nil {
		return 0, err
	}
	if _, err := c.watcher.await(ctx, claimed, answerLimit); err != nil {
		return 0, err
	}
	time.Sleep(claimPause)
	return took, nil
}

func (c *cluster) claimSingles(ctx context.Context, name string) error {
	return parallel(ctx, claimed, func(ctx context.Context, i int) error {
		return c.makePod(ctx, inQueue(pod(member(name, i, 1).Name, 1), owner))
	})
}

func (c *cluster) claimGang(ctx context.Context, name string) error {
	if err := c.makeGroup(ctx, name, claimed, ""); err != nil {
		return err
	}
	return parallel(ctx, claimed, func(ctx context.Context, i int) error {
		return c.makePod(ctx, inQueue(member(name, i, 1), owner))
	})
}
