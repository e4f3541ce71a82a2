package provisioner

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sicken has the nodes of the first n claims have had a condition for so long, and says which they are.
func (x *stage) sicken(n int, condition corev1.NodeConditionType, ago time.Duration) (names []string) {
	for _, c := range x.claims()[:n] {
		names = append(names, c.Name)
		for _, o := range nodesOf(x.server) {
			if o.Name == c.Name {
				o.Status.Conditions = append(o.Status.Conditions, corev1.NodeCondition{Type: condition, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(x.now.Add(-ago))})
				put(x.server, "nodes", &o)
			}
		}
	}
	return names
}

// repairing is five nodes with work that must not be disrupted.
func repairing(t *testing.T) *stage {
	x := newStage(t, Karpenter, map[string]int{"a": 4, "b": 4}, nil)
	x.submit("train", 5)
	x.until("start", func() bool { return x.waiting() == 0 && x.count(up) == 5 })
	for _, p := range podsOf(x.server) {
		p.Annotations = map[string]string{doNotDisrupt: "true"}
		p.Spec.TerminationGracePeriodSeconds = new(int64(30))
		put(x.server, "pods", &p)
	}
	x.api.NodeRepair = true
	return x
}

func deleted(c *nodeClaim) bool { return c.DeletionTimestamp != nil }

// TestRepair replaces one of five nodes whose GPUs are broken for 10 minutes, though its pod must not be disrupted. Not before that, not
// without the feature gate, and not where two of five are unhealthy, which is more than a fifth.
func TestRepair(t *testing.T) {
	for _, c := range []struct {
		what      string
		sick      int
		condition corev1.NodeConditionType
		ago       time.Duration
		gate      bool
		gone      int
		told      bool
	}{
		{"GPUs for 11 minutes", 1, "AcceleratedHardwareReady", 11 * time.Minute, true, 1, false},
		{"GPUs for 9 minutes", 1, "AcceleratedHardwareReady", 9 * time.Minute, true, 0, false},
		{"kernel for 29 minutes", 1, "KernelReady", 29 * time.Minute, true, 0, false},
		{"kernel for 31 minutes", 1, "KernelReady", 31 * time.Minute, true, 1, false},
		{"pressure, which the kubelet repairs", 1, "MemoryPressure", time.Hour, true, 0, false},
		{"two of five", 2, "KernelReady", time.Hour, true, 0, true},
		{"without the gate", 1, "KernelReady", time.Hour, false, 0, false},
	} {
		x := repairing(t)
		x.api.NodeRepair = c.gate
		x.sicken(c.sick, c.condition, c.ago)
		x.watch(true, true)
		x.look()
		if n := x.count(deleted); n != c.gone {
			t.Errorf("%s: %d claims are deleted, want %d", c.what, n, c.gone)
		}
		if told := slices.Contains(x.told(), "NodeRepairBlocked"); told != c.told {
			t.Errorf("%s: said %v", c.what, x.told())
		}
		if c.gone == 0 {
			continue
		}
		x.until(c.what, func() bool {
			x.again("train", 5, 8)
			return x.waiting() == 0 && x.count(up) == 5 && x.count(deleted) == 0
		})
	}
}

// TestRepairAgain repairs the one that is left once the other is well again, after five minutes.
func TestRepairAgain(t *testing.T) {
	x := repairing(t)
	sick := x.sicken(2, "KernelReady", time.Hour)
	x.watch(true, true)
	x.look()
	for _, n := range nodesOf(x.server) {
		if n.Name == sick[0] {
			n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == "KernelReady" })
			put(x.server, "nodes", &n)
		}
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{4 * time.Minute, 0}, {2 * time.Minute, 1}} {
		x.now = x.now.Add(c.after)
		x.watch(true, true)
		x.look()
		if n := x.count(deleted); n != c.want {
			t.Errorf("%v later %d claims are deleted, want %d", c.after, n, c.want)
		}
	}
}

// TestRepairKilled kills Karpenter at each write while it repairs a node: it is replaced once, and nothing is left behind.
func TestRepairKilled(t *testing.T) {
	everywhere(t, func(t *testing.T, x *stage, what string) {
		sick := x.sicken(1, "KernelReady", time.Hour)
		x.until(what, func() bool {
			x.api.NodeRepair = true // whoever comes next has it, too
			x.again("train", 5, 8)
			x.never(6, what)
			return x.waiting() == 0 && x.count(up) == 5 && !slices.ContainsFunc(x.claims(), func(c nodeClaim) bool { return c.Name == sick[0] })
		})
	}, repairing)
}

// TestExpire gives a pod its grace period before its node terminates, or what is left of it.
func TestExpire(t *testing.T) {
	x := newStage(t, Karpenter, nil, nil)
	x.pod("p", "", 8)
	k := x.player.(*karpenter)
	for i, c := range []struct {
		left  int64         // seconds until the node terminates
		ends  time.Duration // when the pod does, which is deleted; 0: it is not
		given int64         // seconds that it was given then
		want  bool
	}{
		{600, 0, 0, false},
		{29, 0, 0, true},
		{-5, 0, 0, true},
		{-5, time.Hour, 3600, true},
		{-5, time.Second, 1, false},
		{600, 30 * time.Second, 30, false},
	} {
		p := podsOf(x.server)[0].DeepCopy()
		p.Spec.TerminationGracePeriodSeconds = new(int64(30))
		if c.ends > 0 {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: x.now.Add(c.ends)}, &c.given
		}
		got, err := k.expire(t.Context(), &world{now: x.now}, p, x.now.Add(time.Duration(c.left)*time.Second))
		if got != c.want || err != nil {
			t.Errorf("case %d: %t, %v", i, got, err)
		}
		if got {
			x.pod("p", "", 8)
		}
	}
}
