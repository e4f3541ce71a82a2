package convert

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// Trim drops, in place, what nobody reads of a pod that is watched, and cuts lists that are above a limit to one more than
// the limit, which says as much: a pod may have 1.5 MB, and the scheduler keeps all of them. What Pod, NativeGang, Unheeded
// and AllowedNodes make of it stays the same.
func Trim(p *corev1.Pod) {
	trimAnnotations(p.Annotations)
	s := &p.Spec
	s.EphemeralContainers, s.ImagePullSecrets, s.HostAliases, s.DNSConfig = nil, nil, nil, nil
	s.InitContainers, s.Containers = cutTo(s.InitContainers, MaxContainers), cutTo(s.Containers, MaxContainers)
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			trimContainer(&list[i])
		}
	}
	s.Volumes, s.Tolerations = cutTo(s.Volumes, MaxVolumes), cutTo(s.Tolerations, MaxTolerations)
	for i := range s.Volumes {
		trimVolume(&s.Volumes[i].VolumeSource)
	}
	s.ResourceClaims, s.SchedulingGates, s.ReadinessGates = cutTo(s.ResourceClaims, MaxResourceClaims), cutTo(s.SchedulingGates, 1), nil
	s.EvictionResponders = cutTo(s.EvictionResponders, 0)
	if len(overLimits(p)) > 0 {
		trimLists(s)
		trimRules(s)
		trimLabels(p.Labels, MaxPodLabels)
	}
}

// AboveLimits says which limits the pod is above; none: nil. What compares a pod that somebody wrote with each node should look at one that
// is above none, or at Bounded.
func AboveLimits(p *corev1.Pod) []string {
	t := tally{problems: overLimits(p)}
	t.most(len(p.Spec.ResourceClaims), MaxResourceClaims, "spec.resourceClaims")
	return t.problems
}

// Bounded is the pod; where that is above a limit, a copy whose lists are cut as Trim cuts them: it is still above one. It keeps what
// nobody here reads, and all its containers: what they ask for in all stays true of the resources that are left.
func Bounded(p *corev1.Pod) *corev1.Pod {
	if len(AboveLimits(p)) == 0 {
		return p
	}
	p = p.DeepCopy()
	s := &p.Spec
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			trimResources(list[i].Resources.Requests)
			trimResources(list[i].Resources.Limits)
		}
	}
	cutLists(p)
	return p
}

// cutLists cuts the lists of a pod that is above a limit.
func cutLists(p *corev1.Pod) {
	s := &p.Spec
	s.Volumes, s.Tolerations, s.ResourceClaims = cutTo(s.Volumes, MaxVolumes), cutTo(s.Tolerations, MaxTolerations), cutTo(s.ResourceClaims, MaxResourceClaims)
	trimLists(s)
	trimRules(s)
	trimLabels(p.Labels, MaxPodLabels)
}

// TrimOwner does the same with annotations of a controller.
func TrimOwner(o metav1.Object) { trimAnnotations(o.GetAnnotations()) }

// mostForeign is how many annotations of others are kept.
const mostForeign = 64

// trimAnnotations drops what others wrote that is long, such as what kubectl applied last, or too many.
func trimAnnotations(all map[string]string) {
	foreign := 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		value := all[key]
		switch {
		case strings.HasPrefix(key, v1alpha1.KeyPrefix):
			switch {
			case key == v1alpha1.KeySurge:
			case key == v1alpha1.KeyTerms: // cut, it would not be what was sealed
				if len(value) > mostRecord {
					delete(all, key)
				}
			case len(value) > MaxPodBytes:
				all[key] = clipped(strings.TrimSpace(value), bytesOf(key))
			}
		case namesGPUs(key) && len(value) <= MaxPodBytes:
		case dialect.ForScheduler(key) && foreign < mostForeign: // a dialect may read it
			all[key] = clipped(value, MaxValueBytes)
			foreign++
		case dialect.ForScheduler(key): // that it is there is said on the pod
			all[key] = clipped(value, 0)
		case len(value) > MaxValueBytes || foreign >= mostForeign && !readForeign(key):
			delete(all, key)
		default:
			foreign++
		}
	}
}

// namesGPUs says whether the key says which GPUs an edition of HAMi's plugin gives to the pod.
func namesGPUs(key string) bool {
	return slices.ContainsFunc(hami.Editions(), func(e hami.Edition) bool { return key == e.Node || key == e.Allocated })
}

// trimLists cuts the lists of maps and of terms, which are found to be too large only by counting.
func trimLists(s *corev1.PodSpec) {
	trimLabels(s.NodeSelector, MaxSelectorLabels)
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil {
		return
	}
	a := s.Affinity.NodeAffinity
	a.PreferredDuringSchedulingIgnoredDuringExecution = cutTo(a.PreferredDuringSchedulingIgnoredDuringExecution, MaxAffinityTerms)
	terms := []*corev1.NodeSelectorTerm{}
	if r := a.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		r.NodeSelectorTerms = cutTo(r.NodeSelectorTerms, MaxAffinityTerms)
		for i := range r.NodeSelectorTerms {
			terms = append(terms, &r.NodeSelectorTerms[i])
		}
	}
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		terms = append(terms, &a.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
	}
	for _, t := range terms {
		t.MatchExpressions, t.MatchFields = cutTo(t.MatchExpressions, MaxAffinityExpressions), cutTo(t.MatchFields, MaxAffinityExpressions)
		for i := range t.MatchExpressions {
			t.MatchExpressions[i].Values = cutTo(t.MatchExpressions[i].Values, MaxAffinityValues)
		}
	}
}

// cutTo is the list, or so much of it that it is still seen to be above the limit, in memory of its own.
func cutTo[T any](list []T, limit int) []T {
	if len(list) <= limit+1 {
		return list
	}
	return append([]T(nil), list[:limit+1]...)
}

// trimVolume leaves the claim behind a volume, and that it is a disk of a kind that is told about.
func trimVolume(v *corev1.VolumeSource) {
	out := corev1.VolumeSource{PersistentVolumeClaim: v.PersistentVolumeClaim, Ephemeral: v.Ephemeral}
	if v.GCEPersistentDisk != nil {
		out.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{}
	}
	if v.AWSElasticBlockStore != nil {
		out.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{}
	}
	if v.RBD != nil {
		out.RBD = &corev1.RBDVolumeSource{}
	}
	if v.ISCSI != nil {
		out.ISCSI = &corev1.ISCSIVolumeSource{}
	}
	if v.Image != nil {
		out.Image = &corev1.ImageVolumeSource{}
		if len(v.Image.Reference) <= MaxNameBytes {
			out.Image.Reference = v.Image.Reference
		}
	}
	*v = out
}

// trimContainer leaves what a container takes of its node, and what decides which features the node must declare.
func trimContainer(c *corev1.Container) {
	c.Command, c.Args, c.Env, c.EnvFrom = nil, nil, nil, nil
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle, c.SecurityContext = nil, nil, nil, nil, nil
	c.TerminationMessagePath, c.VolumeDevices = "", nil
	c.Ports = cutTo(slices.DeleteFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort == 0 }), MaxHostPorts)
	for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
		trimResources(list)
	}
	for i := range c.VolumeMounts {
		if len(c.VolumeMounts[i].BindMountOptions) > 0 {
			c.VolumeMounts = []corev1.VolumeMount{{BindMountOptions: c.VolumeMounts[i].BindMountOptions}}
			return
		}
	}
	c.VolumeMounts = nil
}

// trimResources leaves as many resources as are seen to be too many, those that count most among them.
func trimResources(list corev1.ResourceList) {
	if len(list) <= MaxResources+1 {
		return
	}
	names := slices.SortedFunc(maps.Keys(list), func(a, b corev1.ResourceName) int { return byWeight(string(a), string(b)) })
	for _, name := range names[MaxResources+1:] {
		delete(list, name)
	}
}

// readForeign says whether the key is of those that somebody here reads, or may: Kubernetes' own and KAI's.
func readForeign(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return key == kaiGroup || key == kaiFraction || key == kaiMemory || key == kaiDevices || key == kaiContainer || slices.Contains(hamiKeys(), key) || slices.Contains(vgpuKeys(), key) || strings.HasSuffix(prefix, "kubernetes.io") || strings.HasSuffix(prefix, "k8s.io")
}
