package fleet

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
)

// inject replaces the Faults in the cache, as the informer would.
func (b *bed) inject(specs ...v1alpha1.FaultSpec) {
	var objects []any
	for _, s := range specs {
		f := &v1alpha1.Fault{Spec: s}
		f.Name, f.UID, f.CreationTimestamp = string(s.Type), types.UID(s.Type), metav1.NewTime(time.Now())
		objects = append(objects, f)
	}
	if err := b.controller.faults.store.Replace(objects, ""); err != nil {
		b.t.Fatal(err)
	}
	b.controller.faults.changed()
	b.settle()
}

// sight is what of a node faults change.
type sight struct {
	Offer, Ready, Disk string
	Cordoned           bool
	Taints, Conditions []string
	Upgrade            string
}

func (b *bed) look(name string) sight {
	n := b.get(name)
	s := sight{Offer: b.offer(name, device.Resource), Cordoned: n.Spec.Unschedulable, Upgrade: n.Labels["nvidia.com/gpu-driver-upgrade-state"]}
	for _, t := range n.Spec.Taints {
		s.Taints = append(s.Taints, t.Key)
	}
	for _, c := range n.Status.Conditions {
		switch c.Type {
		case corev1.NodeReady:
			s.Ready = string(c.Status)
		case corev1.NodeDiskPressure:
			s.Disk = string(c.Status)
		case corev1.NodeMemoryPressure, corev1.NodePIDPressure:
		default:
			s.Conditions = append(s.Conditions, string(c.Type)+"="+string(c.Status))
		}
	}
	return s
}

// TestFaultsShowAndHeal injects types one after the other into one node, sees what they show, and that all of it is gone when
// they heal, while what a user did stays.
func TestFaultsShowAndHeal(t *testing.T) {
	xid, ignored := int32(48), int32(31)
	well := sight{Offer: "8/8", Ready: "True", Disk: "False", Taints: []string{"mine"}, Conditions: []string{"Mine=True"}}
	with := func(change func(*sight)) sight { s := well; change(&s); return s }
	for _, c := range []struct {
		spec v1alpha1.FaultSpec
		want sight
	}{
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultXid, Xid: &xid, GPUs: []int32{1, 5}}, with(func(s *sight) { s.Offer = "8/6" })},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultXid, Xid: &ignored}, well},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultGPULost}, with(func(s *sight) { s.Offer = "8/7" })},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultKubeletRestart}, with(func(s *sight) { s.Offer = "0/0" })},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultDiskPressure}, with(func(s *sight) { s.Disk = "True" })},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultCNINotReady}, with(func(s *sight) { s.Ready = "False" })},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultStartupTaintStays, Taint: "slow/agent"}, with(func(s *sight) { s.Taints = []string{"mine", "slow/agent"} })},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultQuarantine}, with(func(s *sight) {
			s.Cordoned, s.Conditions = true, []string{"GpuXidErrorWatch=True", "Mine=True"}
		})},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultDriverUpgrade, UpgradeState: "drain-required"}, with(func(s *sight) { s.Cordoned, s.Upgrade = true, "drain-required" })},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultThermalThrottle}, well},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, false, []*v1alpha1.Pool{gpuPool("p", 2)})
			b.setStack("p-0", stackPods())
			b.setStack("p-1", stackPods())
			b.edit("p-0", func(n *corev1.Node) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "mine", Effect: corev1.TaintEffectNoSchedule})
				n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Mine", Status: corev1.ConditionTrue})
			})
			other := b.look("p-1")
			check := func(when string, want sight) {
				t.Helper()
				got := b.look("p-0")
				slices.Sort(got.Conditions)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, %s (-want +got):\n%s", c.spec.Type, when, diff)
				}
			}
			check("before", well)
			c.spec.Node = "p-0"
			b.inject(c.spec)
			check("active", c.want)
			if diff := cmp.Diff(other, b.look("p-1")); diff != "" {
				t.Errorf("%s hits another node:\n%s", c.spec.Type, diff)
			}
			b.inject()
			check("healed", well)

			c.spec.For = &metav1.Duration{Duration: 20 * time.Second}
			b.inject(c.spec)
			check("active for a while", c.want)
			time.Sleep(30 * time.Second)
			b.settle()
			check("healed by itself", well)
		})
	}
}

// TestReplacedInTheSecondOfItsNode has machines replaced at once after their node came: the API server keeps both
// times in whole seconds.
func TestReplacedInTheSecondOfItsNode(t *testing.T) {
	for _, bad := range []v1alpha1.FaultType{v1alpha1.FaultBootNeverRegisters, v1alpha1.FaultBootSlow, v1alpha1.FaultBootFails} {
		for _, ago := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprintf("%s/%s", bad, ago), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBed(t, false, []*v1alpha1.Pool{plainPool("p", 1)})
					time.Sleep(time.Minute)
					came := metav1.NewTime(time.Now().Add(time.Second - ago)) // an edit takes a second
					b.edit("p-0", func(n *corev1.Node) { n.CreationTimestamp, n.Labels["old"] = came, "true" })
					b.inject(v1alpha1.FaultSpec{Type: bad, Node: "p-0"})
					time.Sleep(time.Hour)
					switch {
					case !b.gone("p-0") && b.get("p-0").Labels["old"] != "":
						t.Error("the node of the machine that is gone stays")
					case bad == v1alpha1.FaultBootNeverRegisters && !b.gone("p-0"):
						t.Error("a machine that never registers has a node")
					case bad == v1alpha1.FaultBootSlow && (b.gone("p-0") || !isReady(b.get("p-0"))):
						t.Error("the slow machine never comes")
					case bad == v1alpha1.FaultBootFails && (b.gone("p-0") || isReady(b.get("p-0"))):
						t.Error("the machine that fails is to register and never to get ready")
					}
				})
			})
		}
	}
}

// TestMachinesThatBootBadly follows machines that a fault replaces.
func TestMachinesThatBootBadly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, false, []*v1alpha1.Pool{plainPool("p", 1)})
		time.Sleep(time.Minute)
		// client-go's tracker keeps no creation times
		b.edit("p-0", func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Minute)) })
		b.inject(v1alpha1.FaultSpec{Type: v1alpha1.FaultBootNeverRegisters, Node: "p-0"})
		time.Sleep(time.Hour)
		if !b.gone("p-0") {
			t.Error("a machine that never registers has a node")
		}
		b.inject()
		if b.gone("p-0") || !isReady(b.get("p-0")) {
			t.Error("the next machine does not come")
		}
		b.inject(v1alpha1.FaultSpec{Type: v1alpha1.FaultNodePartitioned, Node: "p-0"})
		renewed := b.leases.stored["p-0"].ResourceVersion
		time.Sleep(time.Minute)
		if b.leases.stored["p-0"].ResourceVersion != renewed || b.machines.get("p-0").handle.Down() {
			t.Error("a node that is cut off renews its lease, or does not run")
		}
		b.inject()
		if b.leases.stored["p-0"].ResourceVersion == renewed {
			t.Error("it is back, its lease is not")
		}
	})
}
