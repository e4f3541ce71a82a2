package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/facts"
)

// leaderWorkerTemplate is what matters here of the template of a LeaderWorkerSet's groups.
type leaderWorkerTemplate struct {
	Size      *int32                         `json:"size"`
	Leader    *corev1.PodTemplateSpec        `json:"leaderTemplate"`
	Worker    corev1.PodTemplateSpec         `json:"workerTemplate"`
	Claims    []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates"`
	Subgroups *struct {
		Type *string `json:"subGroupPolicyType"`
		Size *int32  `json:"subGroupSize"`
	} `json:"subGroupPolicy"`
}

// refused is why the LeaderWorkerSet's webhook refuses the subgroups (pkg/webhooks/leaderworkerset_webhook.go); nil: it takes them.
func (t *leaderWorkerTemplate) refused(apart string) error {
	const at = "spec.leaderWorkerTemplate.subGroupPolicy"
	if t.Subgroups == nil {
		if apart != "" {
			return fmt.Errorf("%s without %s: its webhook refuses it", lwsSubgroupExclusive, at)
		}
		return nil
	}
	size, each := int32(atLeast(t.Size, 1)), ptr.Deref(t.Subgroups.Size, 0)
	switch {
	case each < 1 || each > size:
		return fmt.Errorf("%s.subGroupSize is %d: want 1 to the size, %d", at, each, size)
	case size%each != 0 && (size-1)%each != 0:
		return fmt.Errorf("%s.subGroupSize is %d: want a number that divides the size, %d, or one less", at, each, size)
	case t.leaderExcluded() && (size-1)%each != 0:
		return fmt.Errorf("%s.subGroupSize is %d: with LeaderExcluded want a number that divides the size, %d, less one", at, each, size)
	}
	return nil
}

func (t *leaderWorkerTemplate) leaderExcluded() bool {
	return t.Subgroups != nil && ptr.Deref(t.Subgroups.Type, "") == "LeaderExcluded"
}

// subgroup is that of the pod of a group, whose leader is pod 0: where one pod is left over, the leader is one more in the first subgroup
// (getSubGroupIndex of pkg/webhooks/pod_webhook.go). ok is false for a pod in none.
func (t *leaderWorkerTemplate) subgroup(pod int) (index int, ok bool) {
	switch {
	case t.Subgroups == nil || pod == 0 && t.leaderExcluded():
		return 0, false
	case pod == 0:
		return 0, true
	}
	size, each := atLeast(t.Size, 1), int(*t.Subgroups.Size)
	if (size-1)%each == 0 && size%each != 0 {
		return (pod - 1) / each, true
	}
	return pod / each, true
}

// leaderWorkerSet makes the groups of a LeaderWorkerSet (pkg/webhooks/pod_webhook.go). Without a template of its own the leader is made
// of the workers'. Where each subgroup is to have a topology domain to itself, its workers are a part.
func (m *maker) leaderWorkerSet(w *Workload, u *unstructured.Unstructured) error {
	var spec struct {
		Replicas *int32               `json:"replicas"`
		Group    leaderWorkerTemplate `json:"leaderWorkerTemplate"`
	}
	if err := decode(u.Object["spec"], &spec); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	t := &spec.Group
	if len(t.Worker.Spec.Containers) == 0 || t.Leader != nil && len(t.Leader.Spec.Containers) == 0 {
		return nil
	}
	apart := u.GetAnnotations()[lwsSubgroupExclusive]
	if err := t.refused(apart); err != nil {
		return err
	}
	w.ofEach = t.Claims
	m.leaderWorkerGroups(w, u, t, atLeast(spec.Replicas, 0))
	return nil
}

// leaderWorkerGroups makes so many groups of the set. Of none their parts are made, without pods.
func (m *maker) leaderWorkerGroups(w *Workload, u *unstructured.Unstructured, t *leaderWorkerTemplate, groups int) {
	const at = "/spec/leaderWorkerTemplate/"
	apart, size := u.GetAnnotations()[lwsSubgroupExclusive], atLeast(t.Size, 1)
	for g := range max(1, groups) {
		if m.left == 0 {
			w.add(Part{Name: "worker", Maker: u, Template: at + "workerTemplate", Wanted: times(groups-g, size)})
			break
		}
		made := func(name, path string, from *corev1.PodTemplateSpec, first, n int) {
			if groups == 0 {
				n = 0
			}
			w.add(m.leaderWorkers(u, t, g, name, at+path, from, first, n))
		}
		if t.Leader == nil {
			made("leader", "workerTemplate", &t.Worker, 0, 1)
		} else {
			made("leader", "leaderTemplate", t.Leader, 0, 1)
		}
		for first := 1; first < size; {
			name, n := "worker", size-first
			if index, ok := t.subgroup(first); ok && apart != "" && groups > 0 {
				name = fmt.Sprintf("worker-%d", index)
				for n = 1; first+n < size; n++ {
					if next, _ := t.subgroup(first + n); next != index {
						break
					}
				}
			}
			made(name, "workerTemplate", &t.Worker, first, n)
			if first += n; m.left == 0 && first < size {
				w.add(Part{Name: "worker", Maker: u, Template: at + "workerTemplate", Wanted: size - first})
				break
			}
		}
	}
}

// leaderWorkers makes n pods of a group, the first of which has that number in it. They are alike but for their labels.
func (m *maker) leaderWorkers(u *unstructured.Unstructured, of *leaderWorkerTemplate, group int, name, path string, from *corev1.PodTemplateSpec, first, n int) Part {
	t := from.DeepCopy()
	if t.Labels == nil {
		t.Labels = make(map[string]string)
	}
	t.Labels[facts.CrewLabels["leaderworkerset.x-k8s.io"]], t.Labels[lwsGroupIndex] = u.GetName(), fmt.Sprint(group)
	by, apart := u.GetAnnotations()[lwsExclusive], u.GetAnnotations()[lwsSubgroupExclusive]
	if by != "" {
		exclusive(t, lwsGroup, fmt.Sprintf("%s-%d", u.GetName(), group), by, nil)
	}
	if index, ok := of.subgroup(first); ok && apart != "" && apart != by { // with the same topology the rule is there already
		exclusive(t, lwsSubgroup, fmt.Sprintf("%s-%d-%d", u.GetName(), group, index), apart, nil)
	}
	t.Labels[lwsWorkerIndex] = fmt.Sprint(first)
	p := m.standIn(u, fmt.Sprintf("%s-%d", name, group), path, t, n)
	for i, pod := range p.Pods {
		pod.Labels[lwsWorkerIndex] = fmt.Sprint(first + i)
		claimEach(pod, of.Claims)
		if index, ok := of.subgroup(first + i); ok {
			pod.Labels[lwsSubgroupIndex] = fmt.Sprint(index)
		}
	}
	return p
}

// atLeast is a count of pods, 1 where it is absent.
func atLeast(n *int32, least int) int {
	if n == nil {
		return 1
	}
	return max(least, int(*n))
}
