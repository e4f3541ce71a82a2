package workload

import (
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

	lwsSubgroupExclusive = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
	lwsSubgroup          = "leaderworkerset.sigs.k8s.io/subgroup-key"
	lwsSubgroupIndex     = "leaderworkerset.sigs.k8s.io/subgroup-index"
)

// keepApart gives the pods of a JobSet's Job what its controller and its webhook give them where the Job is to have a topology domain to
// itself: a rule between pods, or with the other strategy a selector of nodes that were labelled for the Job by hand. The webhook writes
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
