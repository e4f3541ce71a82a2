package conformance

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/features"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/diagnose/submit/workload"
	"github.com/berth-dev/berth/kube/convert"
)

// TestDefaultsAsTheAPIServer holds the table of defaults, which `berth check` uses where there is no API server, against the
// API server's own: of a pod after one and after the other the engine reads the same. What admission adds (priorities,
// tolerations, limit ranges, runtime classes) is set aside here: diagnose/submit/workload has a test of it, and the story of
// `berth check` a live cluster.
//
// Resources of the pod as a whole are filled in after admission. The gate that has it so is switched off: then the same code
// runs with the other defaults, which can be called.
func TestDefaultsAsTheAPIServer(t *testing.T) {
	gates := utilfeature.DefaultMutableFeatureGate
	if err := gates.SetFromMap(map[string]bool{string(features.PodLevelResourcesFixDefaulting): false}); err != nil {
		t.Fatal(err)
	}
	defer gates.SetFromMap(map[string]bool{string(features.PodLevelResourcesFixDefaulting): true})
	volumes := everyVolume()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPod(t, "p", volumes)
		p.Spec.HostNetwork = chance(t, 3, "in the host's network")
		p.Spec.SchedulerName, p.Spec.RestartPolicy = "", pick(t, "restart policy", "", corev1.RestartPolicyNever)
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				unsaid(t, &list[i].Resources)
			}
		}
		if r := p.Spec.Resources; r != nil {
			r.Limits = maps.Clone(r.Requests)
			for _, name := range sortedKeys(r.Requests) {
				if chance(t, 2, "no request of the pod for "+string(name)) {
					delete(r.Requests, name)
				}
				if chance(t, 3, "no limit of the pod for "+string(name)) {
					delete(r.Limits, name)
				}
			}
		}

		ours, theirs := p.DeepCopy(), p.DeepCopy()
		workload.Fill(ours, nil)
		ours.Spec.Tolerations, ours.Spec.Priority, ours.Spec.PreemptionPolicy = p.Spec.Tolerations, p.Spec.Priority, p.Spec.PreemptionPolicy
		corev1defaults.SetObjectDefaults_Pod(theirs)
		read := convert.Options{SchedulerNames: []string{corev1.DefaultSchedulerName}}
		if diff := cmp.Diff(convert.Pod(theirs, read), convert.Pod(ours, read)); diff != "" {
			t.Errorf("%+v (-API server +table)\n%s", p.Spec, diff)
		}
		if diff := cmp.Diff(theirs.Spec.Resources, ours.Spec.Resources); diff != "" {
			t.Errorf("resources of the pod (-API server +table)\n%s", diff)
		}
		if theirs.Spec.RestartPolicy != ours.Spec.RestartPolicy {
			t.Errorf("restart policy is %q, want %q", ours.Spec.RestartPolicy, theirs.Spec.RestartPolicy)
		}
	})
}

// unsaid has some requests be said as limits alone, for the defaults to fill in.
func unsaid(t *rapid.T, r *corev1.ResourceRequirements) {
	if r.Limits == nil {
		r.Limits = maps.Clone(r.Requests)
	}
	for _, name := range sortedKeys(r.Requests) {
		if _, limited := r.Limits[name]; limited && chance(t, 2, "no request for "+string(name)) {
			delete(r.Requests, name)
		}
	}
}
