package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	refusals     = 10 // gangs that are told that they cannot run, one after the other
	refusedPods  = 10
	refusedGPUs  = 8 // of each pod
	refusalPause = 500 * time.Millisecond
)

// full measures a backlog that fills the cluster, and then the time until a gang is told that it cannot run:
// from the answer to the creation of its last pod until its group, or one of its pods, says so; and until the
// group and every pod say so.
func full(nodes, pods int) func(context.Context, *cluster, string) ([]figure, error) {
	return func(ctx context.Context, c *cluster, who string) ([]figure, error) {
		if err := errors.Join(c.makeNodes(ctx, nodes), c.makePods(ctx, pods)); err != nil {
			return nil, err
		}
		if who == whoBare {
			return c.backlog(ctx, who, "", pods)
		}
		figures, err := c.backlog(ctx, who, gatesForPods, pods)
		if err != nil {
			return nil, err
		}
		refused, err := c.refuseAll(ctx, who)
		return append(figures, refused...), err
	}
}

// refuseAll starts the scheduler again, for gangs, on the full cluster.
func (c *cluster) refuseAll(ctx context.Context, who string) ([]figure, error) {
	s, err := c.schedule(ctx, who, gatesForGangs)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	var first, last []time.Duration
	for i := range refusals + 1 {
		f, l, err := c.refuse(ctx, fmt.Sprintf("never-%02d", i))
		if err != nil {
			return nil, err
		}
		if i > 0 { // while the first of them waited, the scheduler was still starting
			first, last = append(first, f), append(last, l)
		}
	}
	slices.Sort(first)
	slices.Sort(last)
	return []figure{
		{figNo, milli(at(first, 50))}, {figNoMax, milli(first[len(first)-1])},
		{figAllNo, milli(at(last, 50))}, {figAllNoMax, milli(last[len(last)-1])},
	}, nil
}

// refuse makes a gang that cannot run, waits until it is told, and takes it away again.
func (c *cluster) refuse(ctx context.Context, name string) (first, last time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	groups, pods := c.client.SchedulingV1beta1().PodGroups(namespace), c.client.CoreV1().Pods(namespace)
	groupEvents, err := groups.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, err
	}
	defer groupEvents.Stop()
	podEvents, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		return 0, 0, err
	}
	defer podEvents.Stop()
	if err := c.makeGang(ctx, name, refusedPods, refusedGPUs, ""); err != nil {
		return 0, 0, err
	}
	made := time.Now()
	times, err := toldAll(ctx, name, groupEvents, podEvents)
	if err != nil {
		return 0, 0, err
	}
	return times[0].Sub(made), times[len(times)-1].Sub(made), c.removeGang(ctx, name, refusedPods)
}

// toldAll returns when the group and each of its pods were told, in order.
func toldAll(ctx context.Context, name string, groups, pods watch.Interface) ([]time.Time, error) {
	told := map[string]time.Time{}
	for len(told) < refusedPods+1 {
		select {
		case e := <-groups.ResultChan():
			if g, ok := e.Object.(*schedulingv1beta1.PodGroup); ok && g.Name == name && groupTold(g) {
				note(told, "group")
			}
		case e := <-pods.ResultChan():
			if p, ok := e.Object.(*corev1.Pod); ok && inGroup(p, name) && podTold(p) {
				note(told, p.Name)
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("gang %s: %d of %d were told that it cannot run: %w", name, len(told), refusedPods+1, context.Cause(ctx))
		}
	}
	return slices.SortedFunc(maps.Values(told), time.Time.Compare), nil
}

func note(told map[string]time.Time, who string) {
	if _, ok := told[who]; !ok {
		told[who] = time.Now()
	}
}

func inGroup(p *corev1.Pod, name string) bool {
	g := p.Spec.SchedulingGroup
	return g != nil && g.PodGroupName != nil && *g.PodGroupName == name
}

func groupTold(g *schedulingv1beta1.PodGroup) bool {
	c := meta.FindStatusCondition(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
	return c != nil && c.Status == metav1.ConditionFalse
}

func podTold(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return true
		}
	}
	return false
}

// removeGang leaves time for the scheduler to be quiet again.
func (c *cluster) removeGang(ctx context.Context, name string, size int) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	for i := range size {
		if err := c.client.CoreV1().Pods(namespace).Delete(ctx, member(name, i, 0).Name, now); err != nil {
			return err
		}
	}
	// The group keeps its finalizer: the controller that takes it off does not run here.
	err := c.client.SchedulingV1beta1().PodGroups(namespace).Delete(ctx, name, now)
	time.Sleep(refusalPause)
	return err
}
