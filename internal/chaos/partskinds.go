package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

const (
	labelKind  = "chaos.example/kind"
	keyDevices = "chaos.example/devices" // how many devices the pod is to have
)

// partsKind is a way to ask for GPUs.
type partsKind struct {
	name string
	// make draws a workload of this kind: pods, and a claim that they share.
	make func(r *rand.Rand, name string) ([]*corev1.Pod, *resourcev1.ResourceClaim)
	// whole is a pod that asks for so much that fill of them take all that partsFleet has for this kind.
	whole func(name string) ([]*corev1.Pod, *resourcev1.ResourceClaim)
	fill  int
}

// partsKinds are all. Those that have pools of their own are filled by themselves; of "gang", "pair" and "shared", which use the pools of
// others, fill is 0.
var partsKinds = []partsKind{
	{"whole", func(r *rand.Rand, name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return counted(name, "whole", gpu, 1<<r.IntN(4)), nil
	}, func(name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return counted(name, "whole", gpu, 1), nil
	}, 16},

	{"gang", func(r *rand.Rand, name string) (pods []*corev1.Pod, _ *resourcev1.ResourceClaim) {
		members := 2 + r.IntN(3)
		for i := range members {
			p := counted(fmt.Sprintf("%s-%d", name, i), "whole", gpu, 1+r.IntN(3))[0]
			p.Annotations[v1alpha1.KeyGang], p.Annotations[v1alpha1.KeyMin] = name, strconv.Itoa(members)
			pods = append(pods, p)
		}
		return pods, nil
	}, nil, 0},

	{"mig-small", func(r *rand.Rand, name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return counted(name, "mig", "nvidia.com/mig-1g.10gb", 1+r.IntN(2)), nil
	}, func(name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return counted(name, "mig", "nvidia.com/mig-1g.10gb", 1), nil
	}, 16},

	{"mig-large", func(_ *rand.Rand, name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return counted(name, "mig", "nvidia.com/mig-3g.40gb", 1), nil
	}, func(name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return counted(name, "mig", "nvidia.com/mig-3g.40gb", 1), nil
	}, 8},

	{"replica", func(_ *rand.Rand, name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return counted(name, "shared", gpu, 1), nil
	}, func(name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return counted(name, "shared", gpu, 1), nil
	}, 16},

	{"vgpu", func(r *rand.Rand, name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		p := counted(name, "hami", gpu, 1)
		limits := p[0].Spec.Containers[0].Resources.Limits
		limits[hami.ResMemory] = *resource.NewQuantity(1000+500*r.Int64N(30), resource.DecimalSI)
		if r.IntN(2) == 0 {
			limits[hami.ResCores] = *resource.NewQuantity(10*(1+r.Int64N(5)), resource.DecimalSI)
		}
		return p, nil
	}, func(name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return counted(name, "hami", gpu, 1), nil
	}, 4},

	{"fraction", func(r *rand.Rand, name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return fraction(name, []string{"0.1", "0.25", "0.5", "0.7"}[r.IntN(4)]), nil
	}, func(name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) { return fraction(name, "0.5"), nil }, 4},

	{"claim", func(_ *rand.Rand, name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return claiming(name, "claimed", "card", 1), nil
	}, func(name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return claiming(name, "claimed", "card", 1), nil
	}, 8},

	{"extended", func(r *rand.Rand, name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return counted(name, "claimed", corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+"gpu.nvidia.com"), 1+r.IntN(3)), nil
	}, nil, 0},

	{"slice", func(r *rand.Rand, name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return claiming(name, "cut", []string{"small", "large", "card"}[r.IntN(3)], 1), nil
	}, func(name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return claiming(name, "cut", "small", 1), nil
	}, 28},

	{"pair", func(_ *rand.Rand, name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return claiming(name, "cut", "pair", 2), nil
	}, nil, 0},

	{"shared", func(_ *rand.Rand, name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimSpec{Devices: deviceClaims()["small"]}}
		var pods []*corev1.Pod
		for _, suffix := range []string{"-a", "-b"} {
			p := claiming(name+suffix, "cut", "", 1)[0]
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
			pods = append(pods, p)
		}
		return pods, claim
	}, nil, 0},

	{"share", func(r *rand.Rand, name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return claiming(name, "shares", []string{"third", "tenth"}[r.IntN(2)], 1), nil
	}, func(name string) ([]*corev1.Pod, *resourcev1.ResourceClaim) {
		return claiming(name, "shares", "third", 1), nil
	}, 6},
}

// deviceClaims are what claims ask for, by name.
func deviceClaims() map[string]resourcev1.DeviceClaim {
	one := func(name, class, profile string) resourcev1.DeviceRequest {
		exactly := &resourcev1.ExactDeviceRequest{DeviceClassName: class}
		if profile != "" {
			exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
				Expression: fmt.Sprintf("device.attributes['gpu.nvidia.com'].profile == '%s'", profile),
			}}}
		}
		return resourcev1.DeviceRequest{Name: name, Exactly: exactly}
	}
	part := func(memory, cores string) resourcev1.DeviceRequest {
		r := one("gpu", "hami-core-gpu.project-hami.io", "")
		r.Exactly.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
			"memory": resource.MustParse(memory), "cores": resource.MustParse(cores),
		}}
		return r
	}
	of := func(requests ...resourcev1.DeviceRequest) resourcev1.DeviceClaim {
		return resourcev1.DeviceClaim{Requests: requests}
	}
	pair := of(one("small", "mig.nvidia.com", "1g.10gb"), one("large", "mig.nvidia.com", "3g.40gb"))
	same := resourcev1.FullyQualifiedName("gpu.nvidia.com/parentUUID")
	pair.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: &same}}
	return map[string]resourcev1.DeviceClaim{
		"card": of(one("gpu", "gpu.nvidia.com", "")), "small": of(one("gpu", "mig.nvidia.com", "1g.10gb")),
		"large": of(one("gpu", "mig.nvidia.com", "3g.40gb")), "pair": pair,
		"third": of(part("7Gi", "33")), "tenth": of(part("2Gi", "10")),
	}
}

func partsTemplates() (out []*resourcev1.ResourceClaimTemplate) {
	for name, devices := range deviceClaims() {
		out = append(out, &resourcev1.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: devices}},
		})
	}
	return out
}

// partsPod is one that runs on nodes of the pool until it is deleted.
func partsPod(name, pool string, devices int) *corev1.Pod {
	grace := int64(2)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{keyDevices: strconv.Itoa(devices)}},
		Spec: corev1.PodSpec{
			SchedulerName: one, RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
			NodeSelector: map[string]string{"gpu-pool": pool},
			Containers:   []corev1.Container{{Name: "main", Image: "busybox", Command: []string{"sleep", "1000000"}}},
		},
	}
}

// counted asks for devices of a resource.
func counted(name, pool string, of corev1.ResourceName, n int) []*corev1.Pod {
	p := partsPod(name, pool, n)
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{of: *resource.NewQuantity(int64(n), resource.DecimalSI)}
	return []*corev1.Pod{p}
}

func fraction(name, part string) []*corev1.Pod {
	p := partsPod(name, "fraction", 1)
	p.Annotations[v1alpha1.KeyGPUFraction] = part
	return []*corev1.Pod{p}
}

// claiming asks for devices by a claim of the template.
func claiming(name, pool, template string, devices int) []*corev1.Pod {
	p := partsPod(name, pool, devices)
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
	p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	return []*corev1.Pod{p}
}
