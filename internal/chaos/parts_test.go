package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// The referee finds each of these wrongs, and nothing in what is right.
func TestPartsReferee(t *testing.T) {
	running := func(p []*corev1.Pod, node string, devices ...string) *corev1.Pod {
		p[0].UID, p[0].Spec.NodeName, p[0].Status.Phase = types.UID(p[0].Name), node, corev1.PodRunning
		p[0].Annotations[v1alpha1.KeyGPUs] = fmt.Sprintf(`{"main":["%s"]}`, strings.Join(devices, `","`))
		return p[0]
	}
	whole := func(name, node string, devices ...string) *corev1.Pod {
		return running(counted(name, "whole", gpu, len(devices)), node, devices...)
	}
	vgpu := func(name string, memory, cores int64) *corev1.Pod {
		p := running(counted(name, "hami", gpu, 1), "hami-0", "card")
		p.Annotations[hami.KeyAllocated] = fmt.Sprintf("card,NVIDIA,%d,%d:;", memory, cores)
		return p
	}
	part := func(name, amount string) *corev1.Pod { return running(fraction(name, amount), "fraction-0", "card") }
	claim := func(name, device string, memory string) *resourcev1.ResourceClaim {
		r := resourcev1.DeviceRequestAllocationResult{Request: "gpu", Driver: "d", Pool: "n", Device: device}
		if memory != "" {
			r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}
		}
		return &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Status:     resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{r}}}},
		}
	}
	few := counted("few", "whole", gpu, 2)
	for name, test := range map[string]struct {
		objects []any
		want    []string
	}{
		"right": {[]any{whole("a", "n", "0", "1"), whole("b", "n", "2"), whole("c", "m", "0"), vgpu("d", 3000, 50), vgpu("e", 3000, 50), part("f", "0.5"), part("g", "0.5"),
			claim("h", "left", ""), claim("i", "right", ""), claim("j", "share", "6"), claim("k", "share", "4")}, nil},
		"one device, two pods":      {[]any{whole("a", "n", "0", "1"), whole("b", "n", "1")}, []string{"1 is under a too"}},
		"too few":                   {[]any{running(few, "n", "0")}, []string{"it asked for 2 devices and has 1"}},
		"too much memory of a card": {[]any{vgpu("a", 4000, 0), vgpu("b", 4000, 0)}, []string{"card card (registered: true) has 2 pods with 8000 MiB and 0 % of the cores; it has 2, 6000 and 100"}},
		"too much compute":          {[]any{vgpu("a", 1, 60), vgpu("b", 1, 50)}, []string{"card card (registered: true) has 2 pods with 2 MiB and 110 % of the cores; it has 2, 6000 and 100"}},
		"too many on a card":        {[]any{vgpu("a", 1, 0), vgpu("b", 1, 0), vgpu("c", 1, 0)}, []string{"card card (registered: true) has 3 pods with 3 MiB and 0 % of the cores; it has 2, 6000 and 100"}},
		"fractions":                 {[]any{part("a", "0.7"), part("b", "0.25"), part("c", "0.1")}, []string{"1050 thousandths of card card are given"}},
		"a device, two claims":      {[]any{claim("a", "left", ""), claim("b", "left", "")}, []string{"d/n/left is given 2 times", "2 of d/n/card/slot are given, and there are 1"}},
		"a slot, two claims":        {[]any{claim("a", "left", ""), claim("b", "all", "")}, []string{"2 of d/n/card/slot are given, and there are 1"}},
		"more than a device has":    {[]any{claim("a", "share", "6"), claim("b", "share", "5")}, []string{"11 of memory of d/n/share is given, and there is 10"}},
		"no such device":            {[]any{claim("a", "none", "")}, []string{"d/n/none is in no slice"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPartsReferee()
			if err := r.hardware(partsHardware()); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range test.objects {
				switch o := o.(type) {
				case *corev1.Pod:
					if r.tookPod(o, false) {
						got = append(got, r.ofPod(o)...)
					}
				case *resourcev1.ResourceClaim:
					if r.tookClaim(o, false) {
						got = append(got, r.ofClaim(o)...)
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// partsHardware is a card of HAMi's for two pods; two devices that are on different slots, one that covers both, and one that is shared.
func partsHardware() ([]corev1.Node, []resourcev1.ResourceSlice) {
	card := hami.Register([]hami.Device{{ID: "card", Count: 2, Memory: 6000, Cores: 100}})
	takes := func(counters ...string) []resourcev1.DeviceCounterConsumption {
		c := resourcev1.DeviceCounterConsumption{CounterSet: "card", Counters: make(map[string]resourcev1.Counter)}
		for _, name := range counters {
			c.Counters[name] = resourcev1.Counter{Value: resource.MustParse("1")}
		}
		return []resourcev1.DeviceCounterConsumption{c}
	}
	several := true
	pool := resourcev1.ResourcePool{Name: "n"}
	return []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "hami-0", Annotations: map[string]string{hami.KeyRegister: card}}}},
		[]resourcev1.ResourceSlice{
			{Spec: resourcev1.ResourceSliceSpec{Driver: "d", Pool: pool, SharedCounters: []resourcev1.CounterSet{{Name: "card", Counters: takes("slot", "other")[0].Counters}}}},
			{Spec: resourcev1.ResourceSliceSpec{Driver: "d", Pool: pool, Devices: []resourcev1.Device{
				{Name: "left", ConsumesCounters: takes("slot")}, {Name: "right", ConsumesCounters: takes("other")}, {Name: "all", ConsumesCounters: takes("slot", "other")},
				{Name: "share", AllowMultipleAllocations: &several, Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("10")}}},
			}}},
		}
}

// Claims that are held for nobody are found, and pods whose claims are not theirs.
func TestPartsReferee_idle(t *testing.T) {
	r := newPartsReferee()
	p := claiming("p", "cut", "small", 1)[0]
	p.UID, p.Spec.NodeName = "p", "n"
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c"}, Status: resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{}, ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Name: "p", UID: "p"}},
	}}
	r.tookClaim(c, false)
	if diff := cmp.Diff([]string{"claim c is kept for p, which is not there"}, r.idle()); diff != "" {
		t.Error(diff)
	}
	r.tookPod(p, false)
	if got := r.idle(); got != nil {
		t.Errorf("nothing is wrong, and it says %q", got)
	}
	c = c.DeepCopy()
	c.Status.ReservedFor = nil
	r.tookClaim(c, false)
	if diff := cmp.Diff([]string{"claim c has devices and no user", "no claim is kept for pod p, which is on n"}, r.idle()); diff != "" {
		t.Error(diff)
	}
}
