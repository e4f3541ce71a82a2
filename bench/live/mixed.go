package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A cluster as people have it: queues in a tree that borrow from each other, pods that ask in many ways, machines that
// run what is bound to them, and half of the GPUs in use before the measurement begins.
const (
	departments  = 4
	teams        = 20 // five in each department
	mixedShapes  = 40
	busyPerNode  = gpusPerNode / 2
	mixedGang    = 4
	mixedOnline  = 200
	instanceType = corev1.LabelInstanceTypeStable
)

// instanceTypes are those of the nodes, rack by rack.
var instanceTypes = []string{"gpu8-a", "gpu8-b", "gpu8-c", "gpu8-d"}

// fabric is a label that all nodes have but those of one instance type. Whatever a pod asks for, three quarters of the nodes
// have it, and half of what is free is asked for in all: whoever schedules, everything finds a place.
func fabric(kind int) string { return fmt.Sprintf("example.com/fabric-%d", kind) }

// mixed measures a backlog of pods and gangs of many shapes in 20 queues, and then pods that come one by one while as many
// end.
func mixed(nodes, pods int) func(context.Context, *cluster, string) ([]figure, error) {
	return func(ctx context.Context, c *cluster, who string) ([]figure, error) {
		if err := errors.Join(c.makeTree(ctx, nodes*gpusPerNode), c.makeNodes(ctx, nodes)); err != nil {
			return nil, err
		}
		machines, err := c.part(ctx, "kubelets", kubeconfigOf(c.dir, asAdmin))
		if err != nil {
			return nil, err
		}
		defer machines.stop()
		if err := errors.Join(machines.awaitReady(ctx), c.runFleet(ctx, nodes*busyPerNode)); err != nil {
			return nil, err
		}
		if who == whoOurs {
			if err := c.meetFleet(ctx, who); err != nil {
				return nil, err
			}
		}
		if err := c.makeMixed(ctx, pods); err != nil {
			return nil, err
		}
		s, figures, err := c.workOff(ctx, who, gatesForGangs, pods)
		if s != nil {
			defer s.stop()
		}
		if err != nil || who == whoBare {
			return figures, err
		}
		took, err := c.comeAndGo(ctx, min(mixedOnline, nodes))
		if err != nil {
			return nil, err
		}
		return append(figures, figure{figP50, milli(at(took, 50))}, figure{figP99, milli(at(took, 99))}, figure{figMax, milli(took[len(took)-1])}), nil
	}
}

func teamName(i int) string { return fmt.Sprintf("team-%02d", i%teams) }

// makeTree makes departments and teams. Quotas of teams differ by a factor of four, and every third has a limit.
func (c *cluster) makeTree(ctx context.Context, gpus int) error {
	sum := 0
	for i := range teams {
		sum += 1 + i%4
	}
	quota := func(i int) int { return gpus * (1 + i%4) / sum }
	for d := range departments {
		all := 0
		for i := d; i < teams; i += departments {
			all += quota(i)
		}
		if err := c.createQueue(ctx, fmt.Sprintf("department-%d", d), fmt.Sprintf(`{"resources":[{"name":%q,"quota":%d}]}`, gpu, all)); err != nil {
			return err
		}
	}
	for i := range teams {
		limit := ""
		if i%3 == 0 {
			limit = fmt.Sprintf(`,"limit":%d`, gpus/2)
		}
		spec := fmt.Sprintf(`{"parent":"department-%d","resources":[{"name":%q,"quota":%d%s}]}`, i%departments, gpu, quota(i), limit)
		if err := c.createQueue(ctx, teamName(i), spec); err != nil {
			return err
		}
	}
	return nil
}

// shaped is a pod of one of the shapes, in the team's queue. All have one GPU: how many fit is the same for all schedulers,
// and whether a team may have them is not asked by those that know no queues.
func shaped(p *corev1.Pod, i int) *corev1.Pod {
	shape := i % mixedShapes
	ask := p.Spec.Containers[0].Resources.Requests
	ask[corev1.ResourceCPU] = *resource.NewQuantity(int64(2+shape%5), resource.DecimalSI)
	ask[corev1.ResourceMemory] = *resource.NewQuantity(int64(8+8*(shape%3))<<30, resource.BinarySI)
	switch shape % 4 {
	case 1:
		p.Spec.NodeSelector = map[string]string{fabric(shape / 4 % len(instanceTypes)): "true"}
	case 2:
		kind := instanceTypes[shape/4%len(instanceTypes)]
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: instanceType, Operator: corev1.NodeSelectorOpNotIn, Values: []string{kind}},
			}}},
		}}}
	case 3:
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: int32(1 + shape), Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: instanceType, Operator: corev1.NodeSelectorOpIn, Values: []string{instanceTypes[shape/4%len(instanceTypes)]}},
			}}},
		}}}
		p.Spec.Tolerations = []corev1.Toleration{{Key: fmt.Sprintf("example.com/shape-%d", shape), Operator: corev1.TolerationOpExists}}
	}
	p.Annotations = map[string]string{keyQueue: teamName(i)}
	return p
}

// runFleet makes pods that run: half of the GPUs of every node. It returns when the machines have said so of all.
func (c *cluster) runFleet(ctx context.Context, n int) error {
	err := parallel(ctx, n, func(ctx context.Context, i int) error {
		p := shaped(pod(runningName(i), 1), i)
		p.Spec.NodeName, p.Spec.NodeSelector, p.Spec.Affinity = nodeName(i/busyPerNode), nil, nil
		return c.makePod(ctx, p)
	})
	for err == nil {
		var list *corev1.PodList
		list, err = c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase!=Running", ResourceVersion: "0"})
		if err == nil && len(list.Items) == 0 {
			return nil
		}
		time.Sleep(time.Second)
	}
	return err
}

// meetFleet lets the scheduler run until it writes nothing more: what it notes on pods that run it has noted long ago in a
// cluster that is in use.
func (c *cluster) meetFleet(ctx context.Context, who string) error {
	s, err := c.schedule(ctx, who, gatesForGangs)
	if err != nil {
		return err
	}
	time.Sleep(stall * time.Second) // it begins to write once it has seen everything
	_, err = c.settled(ctx)
	return errors.Join(err, s.stop())
}

func runningName(i int) string { return fmt.Sprintf("running-%05d", i) }

// makeMixed makes n pods that wait: half of them by themselves, half in gangs of four, every other one of which needs a
// rack.
func (c *cluster) makeMixed(ctx context.Context, n int) error {
	gangs := n / 2 / mixedGang
	return errors.Join(
		parallel(ctx, n-gangs*mixedGang, func(ctx context.Context, i int) error {
			return c.makePod(ctx, shaped(pod(fmt.Sprintf("pod-%05d", i), 1), i))
		}),
		parallel(ctx, gangs, func(ctx context.Context, g int) error {
			name, label := fmt.Sprintf("gang-%04d", g), ""
			if g%2 == 0 {
				label = rackLabel
			}
			if err := c.makeGroup(ctx, name, mixedGang, label); err != nil {
				return err
			}
			for i := range mixedGang {
				if err := c.makePod(ctx, shaped(member(name, i, 1), g)); err != nil {
					return err
				}
			}
			return nil
		}))
}

// comeAndGo makes pods one by one, ends one that runs for each, and returns how long they took from the request that creates
// them to their binding, in order.
func (c *cluster) comeAndGo(ctx context.Context, n int) ([]time.Duration, error) {
	sent := make([]time.Time, n)
	name := func(i int) string { return fmt.Sprintf("coming-%04d", i) }
	for i := range n {
		if err := c.client.CoreV1().Pods(namespace).Delete(ctx, runningName(i*busyPerNode), metav1.DeleteOptions{}); err != nil {
			return nil, err
		}
		sent[i] = time.Now()
		if err := c.makePod(ctx, shaped(pod(name(i), 1), i)); err != nil {
			return nil, err
		}
		time.Sleep(time.Until(sent[i].Add(pace)))
	}
	took := make([]time.Duration, n)
	for i := range n {
		bound, err := c.watcher.awaitPod(ctx, name(i), answerLimit)
		if err != nil {
			return nil, err
		}
		took[i] = bound.Sub(sent[i])
	}
	slices.Sort(took)
	return took, nil
}
