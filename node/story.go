package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// held is a gang that stays on the real node while things break.
const (
	heldSize = 2
	heldFor  = time.Hour
)

// story are the faults, in their order. Each returns when what it broke is whole again.
var story = []struct {
	name string
	play func(s *scene, ctx context.Context, held string) error
}{
	{"the device plugin is killed and comes back", (*scene).pluginDies},
	{"the kubelet is killed and comes back", (*scene).kubeletDies},
	{"a container of a gang is killed", (*scene).memberDies},
	{"the scheduler that leads is killed", (*scene).leaderDies},
	{"the node is rebooted", (*scene).reboots},
}

// faults plays gangs on the node and beside it, and then one fault after the other. After each, gangs still run, the gang that
// stayed runs whole, and the API server, the kubelet and Berth count the same.
func (s *scene) faults(ctx context.Context) error {
	var names []string
	for size := int32(1); size <= int32(s.devices); size++ {
		name, err := s.gang(ctx, size, 500*time.Millisecond, onNode)
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := s.complete(ctx, names...); err != nil {
		return err
	}
	s.say("%d gangs of 1 to %d pods have run on %s", len(names), s.devices, nodeName)
	if s.nodes > 0 {
		if err := s.mixed(ctx); err != nil {
			return err
		}
	}
	held, err := s.gang(ctx, heldSize, heldFor, onNode)
	if err != nil {
		return err
	}
	if err := s.running(ctx, held, heldSize); err != nil {
		return err
	}
	if err := s.eyes.rest(ctx); err != nil {
		return err
	}
	for _, f := range story {
		if err := f.play(s, ctx, held); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if err := s.comeAndGo(ctx, held); err != nil {
			return fmt.Errorf("after %s: %w", f.name, err)
		}
		s.say("%s: gangs run, and all count the same", f.name)
	}
	return nil
}

// comeAndGo has gangs run beside the one that stays, and compares the counts.
func (s *scene) comeAndGo(ctx context.Context, held string) error {
	var names []string
	for range 2 {
		name, err := s.gang(ctx, int32(s.devices-heldSize), 300*time.Millisecond, onNode)
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := errors.Join(s.complete(ctx, names...), s.running(ctx, held, heldSize)); err != nil {
		return err
	}
	return s.eyes.rest(ctx)
}

// mixed runs a gang with one pod on the real node and one on a simulated one.
func (s *scene) mixed(ctx context.Context) error {
	nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var simulated string
	for _, n := range nodes.Items {
		if n.Name != nodeName {
			simulated = n.Name
		}
	}
	apart := func(p *corev1.PodSpec) {
		p.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{nodeName, simulated}}}},
			}}},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"batch.kubernetes.io/job-name": fmt.Sprintf("gang-%d", s.gangs+1)}}},
			}},
		}
	}
	name, err := s.gang(ctx, 2, time.Second, apart)
	if err != nil {
		return err
	}
	if err := s.complete(ctx, name); err != nil {
		return err
	}
	s.say("a gang has run on %s and on %s, of %d simulated nodes", nodeName, simulated, s.nodes)
	return nil
}

// members are the pods of a gang that are not over, by UID.
func (s *scene) members(gang string) []string {
	var out []string
	for _, p := range s.eyes.gangs()[gang] {
		out = append(out, string(p.UID))
	}
	slices.Sort(out)
	return out
}

func (s *scene) unchanged(gang string, before []string) error {
	if is := s.members(gang); !slices.Equal(before, is) {
		return fmt.Errorf("the pods of %s were %v and are %v", gang, before, is)
	}
	return nil
}

// pluginDies: pods that run keep running, and nothing is bound to a node that offers nothing.
func (s *scene) pluginDies(ctx context.Context, held string) error {
	before := s.members(held)
	mended := s.eyes.breaks("plugin")
	s.killPlugin()
	if err := s.until("the node to offer nothing", time.Minute, func() (bool, error) { return s.eyes.offers() == 0, nil }); err != nil {
		return err
	}
	name, err := s.gang(ctx, 1, 300*time.Millisecond, onNode)
	if err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	for _, p := range s.eyes.gangs()[name] {
		if p.Spec.NodeName != "" {
			return fmt.Errorf("%s was bound to a node that offers no GPUs", p.Name)
		}
	}
	if err := errors.Join(s.plug(), s.unchanged(held, before)); err != nil {
		return err
	}
	mended()
	return s.complete(ctx, name)
}

// kubeletDies: containers run on without it.
func (s *scene) kubeletDies(ctx context.Context, held string) error {
	before, registrations := s.members(held), s.registrations()
	mended := s.eyes.breaks("kubelet")
	if err := kill(filepath.Join(s.tools, "kubelet")); err != nil {
		return err
	}
	if err := s.registered(registrations); err != nil {
		return err
	}
	mended()
	if err := s.ready(ctx); err != nil {
		return err
	}
	return s.unchanged(held, before)
}

// memberDies: the Job makes another pod, and the gang is whole again.
func (s *scene) memberDies(ctx context.Context, held string) error {
	before := s.members(held)
	if err := kill("/node", "work", heldFor.String()); err != nil {
		return err
	}
	return s.until("another member", time.Minute, func() (bool, error) {
		is := s.members(held)
		return !slices.Equal(before, is) && len(is) == heldSize, nil
	})
}

// leaderDies: the other scheduler leads, and binds what came meanwhile.
func (s *scene) leaderDies(ctx context.Context, held string) error {
	before := s.members(held)
	pod, err := s.eyes.leader(ctx)
	if err != nil {
		return err
	}
	pids, err := processes("/kubectl-berth", "scheduler")
	if err != nil {
		return err
	}
	killed := false
	for _, pid := range pids {
		group, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && strings.Contains(string(group), "pod"+string(pod.UID)) {
			killed = syscall.Kill(pid, syscall.SIGKILL) == nil
		}
	}
	if !killed {
		return fmt.Errorf("no process of %s among %v", pod.Name, pids)
	}
	at := time.Now()
	name, err := s.gang(ctx, 1, 300*time.Millisecond, onNode)
	if err != nil {
		return err
	}
	if err := s.until("a binding", time.Minute, func() (bool, error) {
		return slices.ContainsFunc(s.eyes.gangs()[name], func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }), nil
	}); err != nil {
		return err
	}
	s.say("the next binding came %.1f s after the leader was killed", time.Since(at).Seconds())
	return errors.Join(s.complete(ctx, name), s.schedulers(ctx), s.unchanged(held, before))
}

// reboots: all processes of the node end at once, the disk stays, and everything comes back by itself.
func (s *scene) reboots(ctx context.Context, held string) error {
	mended := s.eyes.breaks("node")
	was, err := s.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s.killPlugin()
	if err := s.node.off(); err != nil {
		return err
	}
	if left, err := processes("/node", "work"); err != nil || len(left) > 0 {
		return fmt.Errorf("processes %v outlived the node (%v)", left, err)
	}
	time.Sleep(time.Second)
	if err := s.node.on(); err != nil {
		return err
	}
	if err := s.until("another boot", time.Minute, func() (bool, error) {
		n, err := s.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		return err == nil && n.Status.NodeInfo.BootID != was.Status.NodeInfo.BootID, err
	}); err != nil {
		return err
	}
	if err := errors.Join(s.ready(ctx), s.plug()); err != nil {
		return err
	}
	mended()
	return errors.Join(s.schedulers(ctx), s.running(ctx, held, heldSize))
}

// live has pods of gangs live on the real node while the plugin is killed at random moments. It ends when enough have, all
// that was submitted is done, and all count the same.
func (s *scene) live(ctx context.Context) error {
	killers, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	seed := s.random.Uint64()
	go func() { stopped <- s.killer(killers, seed) }()
	open, said := map[string]bool{}, 0
	for s.eyes.ended() < s.lives {
		for len(open) < 4 {
			name, err := s.gang(ctx, 1+s.random.Int32N(int32(s.devices)), time.Duration(100+s.random.IntN(1400))*time.Millisecond, onNode)
			if err != nil {
				return err
			}
			open[name] = true
		}
		if n := s.eyes.ended(); n >= said+50 {
			said = n
			s.say("%s", s.eyes.summary())
		}
		time.Sleep(200 * time.Millisecond)
		jobs, err := s.client.BatchV1().Jobs(team).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		left := map[string]bool{}
		for _, j := range jobs.Items {
			left[j.Name] = j.Status.CompletionTime == nil
		}
		maps.DeleteFunc(open, func(name string, _ bool) bool { return !left[name] })
	}
	stop()
	if err := <-stopped; err != nil {
		return err
	}
	if err := s.complete(ctx, slices.Collect(maps.Keys(open))...); err != nil {
		return err
	}
	return s.eyes.rest(ctx)
}

// killer kills the plugin and starts it again, until ctx ends. It leaves it running.
func (s *scene) killer(ctx context.Context, seed uint64) error {
	random := newRandom(seed)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(2000+random.IntN(10000)) * time.Millisecond):
		}
		mended := s.eyes.breaks("plugin")
		s.killPlugin()
		time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
		before := s.registrations()
		if err := s.startPlugin(); err != nil {
			return err
		}
		if err := s.offered(before); err != nil {
			return err
		}
		mended()
	}
}
