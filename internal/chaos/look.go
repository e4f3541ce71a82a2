package main

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/scheduler"
)

// look is the cluster at one moment, more or less: lists that were taken one after the other.
type look struct {
	expected []string // nodes

	pods   []corev1.Pod
	nodes  []corev1.Node
	jobs   []batchv1.Job
	leases []coordinationv1.Lease
	states []*engine.State // what a scheduler that started now would know, for each name
	plans  []engine.Plan   // what it would do
}

// look asks the API server itself, not a cache.
func (w *world) look(ctx context.Context) (*look, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	all := metav1.ListOptions{}
	l := &look{expected: w.expected()}
	for _, name := range []string{one, two} {
		state, err := scheduler.ReadState(ctx, scheduler.Options{Config: w.config, Name: name, Engine: engine.Config{Levels: scheduler.DefaultLevels(), MinRun: minRun}})
		if err != nil {
			return nil, err
		}
		l.states, l.plans = append(l.states, state), append(l.plans, state.Plan(time.Now()))
	}
	pods, err := w.client.CoreV1().Pods("").List(ctx, all)
	if err != nil {
		return nil, err
	}
	nodes, err := w.client.CoreV1().Nodes().List(ctx, all)
	if err != nil {
		return nil, err
	}
	jobs, err := w.client.BatchV1().Jobs(namespace).List(ctx, all)
	if err != nil {
		return nil, err
	}
	leases, err := w.client.CoordinationV1().Leases("kube-system").List(ctx, all)
	if err != nil {
		return nil, err
	}
	l.pods, l.nodes, l.jobs, l.leases = pods.Items, nodes.Items, jobs.Items, leases.Items
	return l, nil
}

// expected are the nodes that there should be.
func (w *world) expected() []string {
	var out []string
	for _, pool := range pools {
		for i := range w.size(pool) {
			out = append(out, fmt.Sprintf("%s-%d", pool, i))
		}
	}
	return out
}

// String says how busy the cluster is.
func (l *look) String() string {
	var running, waiting, ended int
	var gpus int64
	for i := range l.pods {
		switch p := &l.pods[i]; {
		case p.Namespace != namespace:
		case over(p):
			ended++
		case p.Spec.NodeName == "":
			waiting++
		default:
			running++
			gpus += gpusOf(p)
		}
	}
	return fmt.Sprintf("%d pods on %d GPUs, %d wait, %d are over", running, gpus, waiting, ended)
}

// check is everything that must be so at rest.
func (l *look) check() []finding {
	var out []finding
	for _, c := range []func() []finding{l.devices, l.accounts, l.fleet, l.gangs, l.silent, l.forgotten, l.byHand, l.stuck, l.limits, l.evictions} {
		out = append(out, c()...)
	}
	return out
}

// ours says whether one of the Berths is to schedule the pod.
func ours(p *corev1.Pod) bool { return p.Spec.SchedulerName == one || p.Spec.SchedulerName == two }

func waits(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !over(p)
}

func key(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }
