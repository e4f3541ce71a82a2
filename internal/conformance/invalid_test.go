package conformance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	apideployment "k8s.io/kubernetes/pkg/registry/apps/deployment"
	apijob "k8s.io/kubernetes/pkg/registry/batch/job"
	apipod "k8s.io/kubernetes/pkg/registry/core/pod"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

// TestRefusedAsTheAPIServer holds what `berth check` refuses without an API server against what the API server refuses, for the fields
// that may contradict each other. A manifest that is refused by mistake is the worse fault: it never happens. What the API server
// refuses and the check takes is a fault of the check too. So is a template of which no pod can be created, which the API server takes.
func TestRefusedAsTheAPIServer(t *testing.T) {
	var both, neither int
	rapid.Check(t, func(t *rapid.T) {
		o := anyContradiction(t)
		ours := workload.Invalid(o.DeepCopyObject().(facts.Object))
		theirs := cmp.Or(refusedBy(t, o), refusedBy(t, podOf(o)))
		switch {
		case ours != nil && theirs == "":
			t.Fatalf("refused as %q, and the API server takes it\n%s", ours.Message, asYAML(t, o))
		case ours == nil && theirs != "":
			t.Fatalf("taken, and the API server refuses it: %s\n%s", theirs, asYAML(t, o))
		case ours != nil:
			both++
		default:
			neither++
		}
	})
	if !t.Failed() && (both == 0 || neither == 0) {
		t.Errorf("%d objects were refused and %d taken: the draw shows nothing", both, neither)
	}
}

// podOf is a pod of the object, as its controller would create it.
func podOf(o facts.Object) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "o", Namespace: "default"}}
	switch o := o.(type) {
	case *corev1.Pod:
		return o
	case *batchv1.Job:
		o.Spec.Template.Spec.DeepCopyInto(&p.Spec)
	case *appsv1.Deployment:
		o.Spec.Template.Spec.DeepCopyInto(&p.Spec)
	}
	return p
}

// refusedBy is what the API server says against the object when it is created; "": nothing.
func refusedBy(t *rapid.T, o facts.Object) string {
	var internal runtime.Object
	var strategy rest.RESTCreateStrategy
	group := ""
	switch o.(type) {
	case *corev1.Pod:
		internal, strategy = new(core.Pod), apipod.Strategy
	case *batchv1.Job:
		internal, strategy, group = new(batch.Job), apijob.Strategy, batch.GroupName
	case *appsv1.Deployment:
		internal, strategy, group = new(apps.Deployment), apideployment.Strategy, apps.GroupName
	}
	o = o.DeepCopyObject().(facts.Object)
	legacyscheme.Scheme.Default(o)
	if err := legacyscheme.Scheme.Convert(o, internal, nil); err != nil {
		t.Fatal(err)
	}
	meta, err := apimeta.Accessor(internal)
	if err != nil {
		t.Fatal(err)
	}
	rest.FillObjectMetaSystemFields(meta)
	ctx := genericapirequest.WithNamespace(genericapirequest.NewContext(), "default")
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "create", APIGroup: group, APIVersion: "v1"})
	err = created(func() error { return rest.BeforeCreate(strategy, ctx, internal) })
	if err != nil && !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// created calls what checks an object before it is created. Some objects make it panic, which a client sees as an error: in 1.37.1 an
// Indexed Job without completions that has a successPolicy.
func created(check func() error) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = apierrors.NewInvalid(schema.GroupKind{}, fmt.Sprint("panic: ", x), nil)
		}
	}()
	return check()
}

// anyContradiction is a Job, a Deployment or a pod of which most fields are left out, and some of the others contradict each other.
func anyContradiction(t *rapid.T) facts.Object {
	meta := metav1.ObjectMeta{Name: "o", Namespace: "default"}
	spec := anyTemplate(t)
	switch pick(t, "kind", "Job", "Job", "Deployment", "Pod") {
	case "Job":
		j := &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: meta}
		j.Spec.Template.Spec = spec
		j.Spec.Template.Spec.RestartPolicy = pick(t, "restart policy", "", corev1.RestartPolicyNever, corev1.RestartPolicyNever, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure, corev1.RestartPolicyAlways)
		anyJobRules(t, &j.Spec)
		return j
	case "Deployment":
		d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta}
		d.Spec.Template.Spec = spec
		d.Spec.Template.Spec.RestartPolicy = pick(t, "restart policy", "", "", "", corev1.RestartPolicyAlways, corev1.RestartPolicyNever)
		d.Spec.Template.Labels = map[string]string{"app": "a", "tier": "b"}
		if !chance(t, 12, "no selector") {
			d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(t, "selected", "a", "a", "a", "b")}}
		}
		if chance(t, 4, "a strategy") {
			d.Spec.Strategy.Type = pick(t, "strategy", "", appsv1.RollingUpdateDeploymentStrategyType, appsv1.RecreateDeploymentStrategyType)
			share := func(what string) *intstr.IntOrString {
				return pick(t, what, nil, new(intstr.FromInt32(0)), new(intstr.FromString("0%")), new(intstr.FromInt32(1)), new(intstr.FromString("25%")))
			}
			if chance(t, 2, "rolling update") {
				d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: share("surge"), MaxUnavailable: share("unavailable")}
			}
		}
		return d
	}
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta, Spec: spec}
	p.Spec.RestartPolicy = pick(t, "restart policy", "", corev1.RestartPolicyNever, corev1.RestartPolicyAlways)
	return p
}

// anyJobRules draws what a Job says of its ends.
func anyJobRules(t *rapid.T, j *batchv1.JobSpec) {
	number := func(what string, of ...int32) *int32 {
		if n := pick(t, what, append(of, 99, 99, 99)...); n != 99 {
			return new(n)
		}
		return nil
	}
	j.Parallelism, j.Completions = number("parallelism", 0, 2), number("completions", 1, 3)
	j.BackoffLimit, j.TTLSecondsAfterFinished = number("backoff limit", 0, 4, 4, 4, -1), number("time to live", 5, 5, 5, 5, -1)
	if chance(t, 2, "indexed") {
		j.CompletionMode = new(batchv1.IndexedCompletion)
	}
	if chance(t, 3, "by index") {
		j.BackoffLimitPerIndex = number("backoff limit of an index", 0, 1)
		j.MaxFailedIndexes = number("failed indexes", 0, 1, 5)
	}
	if chance(t, 4, "replaced") {
		j.PodReplacementPolicy = new(pick(t, "replacement", batchv1.Failed, batchv1.TerminatingOrFailed))
	}
	if chance(t, 3, "failure policy") {
		j.PodFailurePolicy = &batchv1.PodFailurePolicy{}
		for range pick(t, "rules", 0, 1, 1, 2) {
			r := batchv1.PodFailurePolicyRule{Action: pick(t, "action", batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionCount)}
			if chance(t, 2, "exit codes") {
				r.OnExitCodes = &batchv1.PodFailurePolicyOnExitCodesRequirement{
					Operator: pick(t, "operator", batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn),
					Values:   pick(t, "codes", []int32{1}, []int32{1, 42}, []int32{0}, nil),
				}
				r.OnExitCodes.ContainerName = pick(t, "of", nil, nil, new("a"), new("nobody"))
			}
			if r.OnExitCodes == nil && !chance(t, 8, "on nothing") || chance(t, 8, "on both") {
				r.OnPodConditions = []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
			}
			j.PodFailurePolicy.Rules = append(j.PodFailurePolicy.Rules, r)
		}
	}
	if chance(t, 4, "success policy") {
		j.SuccessPolicy = &batchv1.SuccessPolicy{}
		for range pick(t, "rules", 0, 1, 1, 2) {
			r := batchv1.SuccessPolicyRule{SucceededCount: number("succeeded", 1, 2, 9)}
			r.SucceededIndexes = pick(t, "indexes", nil, nil, new("0"), new("0-1"), new("0,2"), new("2,0"), new("1-1"), new("0,x"), new(""))
			j.SuccessPolicy.Rules = append(j.SuccessPolicy.Rules, r)
		}
	}
}

// anyTemplate draws a pod's own fields.
func anyTemplate(t *rapid.T) corev1.PodSpec {
	s := corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "x"}}}
	rare := func(what string) bool { return chance(t, 10, what) }
	if rare("a second container") {
		s.Containers = append(s.Containers, corev1.Container{Name: pick(t, "name", "a", "b", ""), Image: "x"})
	}
	if rare("an init container") {
		s.InitContainers = []corev1.Container{{Name: pick(t, "name", "a", "c"), Image: "x"}}
	}
	if rare("a volume") {
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: pick(t, "mounted", "v", "w"), MountPath: "/v"}}
	}
	if rare("claims") {
		c := corev1.PodResourceClaim{Name: "gpu"}
		c.ResourceClaimName, c.ResourceClaimTemplateName = pick(t, "claim", nil, new("c")), pick(t, "template", nil, new("t"))
		s.ResourceClaims = []corev1.PodResourceClaim{c}
		s.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: pick(t, "claimed", "gpu", "nic")}}
	}
	if rare("deadline") {
		s.ActiveDeadlineSeconds = new(pick[int64](t, "seconds", 5, 0))
	}
	if rare("gate") {
		s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/g"}}
		s.NodeName = pick(t, "node", "", "n0")
	}
	if rare("of the pod as a whole") {
		name := pick(t, "resource", corev1.ResourceCPU, corev1.ResourceMemory, "nvidia.com/gpu", corev1.ResourceEphemeralStorage)
		list := corev1.ResourceList{name: resource.MustParse("1")}
		s.Resources = &corev1.ResourceRequirements{Requests: list, Limits: maps.Clone(list)}
	}
	if rare("tolerations") {
		x := corev1.Toleration{Key: pick(t, "key", "", "k"), Operator: pick(t, "operator", "", corev1.TolerationOpExists, corev1.TolerationOpEqual), Value: pick(t, "value", "", "v")}
		x.Effect = pick(t, "effect", "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)
		x.TolerationSeconds = pick(t, "seconds", nil, nil, new(int64(5)))
		s.Tolerations = []corev1.Toleration{x}
	}
	for range pick(t, "spreads", 0, 0, 0, 0, 0, 1, 2) {
		c := corev1.TopologySpreadConstraint{MaxSkew: pick[int32](t, "skew", 1, 1, 2, 0), TopologyKey: pick(t, "key", "zone", "zone", "rack", "")}
		c.WhenUnsatisfiable = pick(t, "when", corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway, "")
		c.MinDomains = pick(t, "domains", nil, nil, new(int32(2)), new(int32(0)))
		if chance(t, 2, "selector") {
			c.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
		}
		c.MatchLabelKeys = pick(t, "match label keys", nil, nil, []string{"tier"})
		s.TopologySpreadConstraints = append(s.TopologySpreadConstraints, c)
	}
	if rare("node affinity") {
		op := pick(t, "operator", corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpGt)
		term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Operator: op, Values: pick(t, "values", nil, []string{"1"}, []string{"1", "2"})}}}
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: slices.Repeat([]corev1.NodeSelectorTerm{term}, pick(t, "terms", 1, 1, 0))}}}
	}
	if rare("nodes preferred") {
		term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Operator: pick(t, "operator", corev1.NodeSelectorOpIn, corev1.NodeSelectorOpExists), Values: pick(t, "values", nil, []string{"1"})}}}
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: pick[int32](t, "weight", 1, 100, 0, 101), Preference: term}}}}
	}
	if rare("pods apart") {
		term := corev1.PodAffinityTerm{TopologyKey: pick(t, "key", "zone", ""), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}}
		if s.Affinity == nil {
			s.Affinity = &corev1.Affinity{}
		}
		if chance(t, 2, "preferred") {
			s.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: pick[int32](t, "weight", 1, 100, 0, 101), PodAffinityTerm: term}}}
		} else {
			s.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}
		}
	}
	return s
}

func asYAML(t *rapid.T, o facts.Object) string {
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
