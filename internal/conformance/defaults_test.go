package conformance

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/diagnose/submit/workload"
	"github.com/berth-dev/berth/kube/convert"
)

// TestDefaultsAsTheAPIServer holds the table of defaults, which `berth check` uses where there is no API server, against the
// API server's own: of a pod after one and after the other the engine reads the same. What admission adds (priorities,
// tolerations, limit ranges) is set aside here; the story of `berth check` has it on a live cluster. So are resources of the pod
// as a whole, of which a feature gate decides when they are filled in.
func TestDefaultsAsTheAPIServer(t *testing.T) {
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
		p.Spec.Resources = nil

		ours, theirs := p.DeepCopy(), p.DeepCopy()
		workload.Fill(ours, nil)
		ours.Spec.Tolerations, ours.Spec.Priority, ours.Spec.PreemptionPolicy = p.Spec.Tolerations, p.Spec.Priority, p.Spec.PreemptionPolicy
		corev1defaults.SetObjectDefaults_Pod(theirs)
		read := convert.Options{SchedulerNames: []string{corev1.DefaultSchedulerName}}
		if diff := cmp.Diff(convert.Pod(theirs, read), convert.Pod(ours, read)); diff != "" {
			t.Errorf("%+v (-API server +table)\n%s", p.Spec, diff)
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
