package workload

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Keys of JobSet v0.12.0 (api/jobset/v1alpha2/jobset_types.go) and LeaderWorkerSet v0.9.0 (api/leaderworkerset/v1).
const (
	jobSetExclusive  = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	jobSetStrategy   = "alpha.jobset.sigs.k8s.io/node-selector"
	jobSetNodes      = "alpha.jobset.sigs.k8s.io/namespaced-job"
	jobSetNoSchedule = "alpha.jobset.sigs.k8s.io/no-schedule"
	jobSetJob        = "jobset.sigs.k8s.io/job-key"

	lwsExclusive   = "leaderworkerset.sigs.k8s.io/exclusive-topology"
	lwsGroup       = "leaderworkerset.sigs.k8s.io/group-key"
	lwsGroupIndex  = "leaderworkerset.sigs.k8s.io/group-index"
	lwsWorkerIndex = "leaderworkerset.sigs.k8s.io/worker-index"
)

// keepApart gives the pods of a JobSet's Job what its controller and its webhook give them where the Job is to have a topology domain to
// itself: a rule between pods, or with the other strategy a selector of nodes that somebody has labelled for the Job. The webhook writes
// the rule on the first pod, and a selector of that pod's domain on those that follow it, which comes to the same.
func keepApart(j *batchv1.Job, set *unstructured.Unstructured) {
	by, strategy := "", false
	for _, annotations := range []map[string]string{set.GetAnnotations(), j.Annotations} {
		if annotations[jobSetExclusive] != "" {
			by, strategy = annotations[jobSetExclusive], annotations[jobSetStrategy] != ""
		}
	}
	t := &j.Spec.Template
	switch {
	case by == "":
	case strategy:
		if t.Spec.NodeSelector == nil {
			t.Spec.NodeSelector = make(map[string]string)
		}
		t.Spec.NodeSelector[jobSetNodes] = j.Namespace + "_" + j.Name
		t.Spec.Tolerations = append(t.Spec.Tolerations, corev1.Toleration{Key: jobSetNoSchedule, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	default:
		exclusive(t, jobSetJob, j.Namespace+"."+j.Name, by, &metav1.LabelSelector{})
	}
}

// exclusive has pods with the value in a domain together, and no others that have the key.
func exclusive(t *corev1.PodTemplateSpec, key, value, topology string, namespaces *metav1.LabelSelector) {
	t.Labels[key] = value
	a := t.Spec.Affinity
	if a == nil {
		a = &corev1.Affinity{}
	}
	if a.PodAffinity == nil {
		a.PodAffinity = &corev1.PodAffinity{}
	}
	if a.PodAntiAffinity == nil {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	term := func(rules ...metav1.LabelSelectorRequirement) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{TopologyKey: topology, NamespaceSelector: namespaces, LabelSelector: &metav1.LabelSelector{MatchExpressions: rules}}
	}
	with, not := &a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, &a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*with = append(*with, term(metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}}))
	*not = append(*not, term(
		metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists},
		metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{value}},
	))
	t.Spec.Affinity = a
}

// leaderWorkerSet makes the groups of a LeaderWorkerSet (pkg/webhooks/pod_webhook.go). Without a template of its own the leader is made
// of the workers'.
func (m *maker) leaderWorkerSet(w *Workload, u *unstructured.Unstructured) error {
	var spec struct {
		Replicas *int32 `json:"replicas"`
		Group    struct {
			Size   *int32                  `json:"size"`
			Leader *corev1.PodTemplateSpec `json:"leaderTemplate"`
			Worker corev1.PodTemplateSpec  `json:"workerTemplate"`
		} `json:"leaderWorkerTemplate"`
	}
	if err := decode(u.Object["spec"], &spec); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	const at = "/spec/leaderWorkerTemplate/"
	if len(spec.Group.Worker.Spec.Containers) == 0 || spec.Group.Leader != nil && len(spec.Group.Leader.Spec.Containers) == 0 {
		return nil
	}
	groups, size := atLeast(spec.Replicas, 0), atLeast(spec.Group.Size, 1)
	for g := range max(1, groups) {
		group := func(name, path string, from *corev1.PodTemplateSpec, n, first int) {
			if groups == 0 {
				n = 0
			}
			t := from.DeepCopy()
			if t.Labels == nil {
				t.Labels = make(map[string]string)
			}
			t.Labels[crewLabels["leaderworkerset.x-k8s.io"]], t.Labels[lwsGroupIndex] = u.GetName(), fmt.Sprint(g)
			if by := u.GetAnnotations()[lwsExclusive]; by != "" {
				exclusive(t, lwsGroup, fmt.Sprintf("%s-%d", u.GetName(), g), by, nil)
			}
			t.Labels[lwsWorkerIndex] = fmt.Sprint(first)
			p := m.standIn(u, fmt.Sprintf("%s-%d", name, g), at+path, t, n)
			for i, pod := range p.Pods {
				pod.Labels[lwsWorkerIndex] = fmt.Sprint(first + i)
			}
			w.add(p)
		}
		if m.left == 0 {
			w.add(Part{Name: "worker", Maker: u, Template: at + "workerTemplate", Wanted: times(groups-g, size)})
			break
		}
		if spec.Group.Leader == nil {
			group("leader", "workerTemplate", &spec.Group.Worker, 1, 0)
		} else {
			group("leader", "leaderTemplate", spec.Group.Leader, 1, 0)
		}
		if size > 1 {
			group("worker", "workerTemplate", &spec.Group.Worker, size-1, 1)
		}
	}
	return nil
}

// atLeast is a count of pods, 1 where it is absent.
func atLeast(n *int32, least int) int {
	if n == nil {
		return 1
	}
	return max(least, int(*n))
}
