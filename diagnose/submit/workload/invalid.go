package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
)

// invalidManifest is the cause of an object that is not what its kind says.
const invalidManifest why.Cause = "invalid-manifest"

// Invalid looks at an object of Kubernetes' own for fields that contradict each other; nil: the API server may take it.
func Invalid(o facts.Object) *Fault {
	err := invalid(o)
	if err == nil {
		return nil
	}
	f := &Fault{Cause: invalidManifest, Message: err.Error(), Whole: true}
	tried := o.DeepCopyObject().(facts.Object)
	path := ""
	switch tried := tried.(type) {
	case *batchv1.Job:
		path, tried.Spec.Template.Spec.RestartPolicy = "/spec/template/spec/restartPolicy", corev1.RestartPolicyNever
	case *batchv1.CronJob:
		path, tried.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy = "/spec/jobTemplate/spec/template/spec/restartPolicy", corev1.RestartPolicyNever
	}
	if path != "" && invalid(tried) == nil {
		f.Edit, f.Patch = "set restartPolicy to Never", []edit.Op{{Op: "add", Path: path, Value: string(corev1.RestartPolicyNever)}}
	}
	return f
}

// invalid says why the API server refuses an object of Kubernetes' own for fields that contradict each other; nil: it may take it. Where
// there is an API server it is asked, and knows more. (pkg/apis/{batch,apps,core}/validation of Kubernetes 1.37.)
func invalid(o facts.Object) error {
	switch o := o.(type) {
	case *corev1.Pod:
		return invalidPod("spec", &o.Spec)
	case *batchv1.Job:
		return invalidJob("spec", &o.Spec)
	case *batchv1.CronJob:
		if o.Spec.Schedule == "" {
			return fmt.Errorf("spec.schedule: a CronJob needs one")
		}
		return invalidJob("spec.jobTemplate.spec", &o.Spec.JobTemplate.Spec)
	case *appsv1.Deployment:
		return firstOf(runsOn(o.Spec.Selector, &o.Spec.Template), invalidStrategy(&o.Spec.Strategy))
	case *appsv1.ReplicaSet:
		return runsOn(o.Spec.Selector, &o.Spec.Template)
	case *appsv1.DaemonSet:
		return runsOn(o.Spec.Selector, &o.Spec.Template)
	case *appsv1.StatefulSet:
		of := o.Spec.Template.DeepCopy()
		for i := range o.Spec.VolumeClaimTemplates {
			of.Spec.Volumes = claimed(of.Spec.Volumes, o.Spec.VolumeClaimTemplates[i].Name, "")
		}
		return runsOn(o.Spec.Selector, of)
	}
	return nil
}

// invalidJob is about a Job's own fields: what counts as success or failure, by index or as a whole.
func invalidJob(at string, j *batchv1.JobSpec) error {
	restarts := j.Template.Spec.RestartPolicy
	completions := ptr.Deref(j.Completions, 0)
	if j.Completions == nil && j.Parallelism == nil {
		completions = 1
	}
	indexed := ptr.Deref(j.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
	switch {
	case restarts != corev1.RestartPolicyNever && restarts != corev1.RestartPolicyOnFailure:
		return fmt.Errorf("%s.template.spec.restartPolicy: of a Job it is Never or OnFailure, and not %s", at, cmp.Or(string(restarts), "Always, as it is where nothing is said"))
	case indexed && j.Completions == nil && j.Parallelism != nil: // without either both are 1
		return fmt.Errorf("%s.completions: an Indexed Job needs it", at)
	case j.PodFailurePolicy != nil && restarts != corev1.RestartPolicyNever:
		return fmt.Errorf("%s.podFailurePolicy: it needs restartPolicy Never, which is %s", at, restarts)
	case j.PodFailurePolicy != nil && j.PodReplacementPolicy != nil && *j.PodReplacementPolicy != batchv1.Failed:
		return fmt.Errorf("%s.podReplacementPolicy: with a podFailurePolicy only Failed is allowed", at)
	case j.BackoffLimitPerIndex != nil && !indexed:
		return fmt.Errorf("%s.backoffLimitPerIndex: it needs completionMode Indexed", at)
	case j.MaxFailedIndexes != nil && j.BackoffLimitPerIndex == nil:
		return fmt.Errorf("%s.maxFailedIndexes: it needs backoffLimitPerIndex", at)
	case j.MaxFailedIndexes != nil && *j.MaxFailedIndexes > completions:
		return fmt.Errorf("%s.maxFailedIndexes: %d is more than the %d completions", at, *j.MaxFailedIndexes, completions)
	case j.SuccessPolicy != nil && !indexed:
		return fmt.Errorf("%s.successPolicy: it needs completionMode Indexed", at)
	}
	for _, n := range []struct {
		field string
		value *int32
	}{{"parallelism", j.Parallelism}, {"completions", j.Completions}, {"backoffLimit", j.BackoffLimit}, {"ttlSecondsAfterFinished", j.TTLSecondsAfterFinished}} {
		if ptr.Deref(n.value, 0) < 0 {
			return fmt.Errorf("%s.%s: %d is below zero", at, n.field, *n.value)
		}
	}
	if err := invalidPolicies(at, j, completions); err != nil {
		return err
	}
	return invalidPod(at+".template.spec", &j.Template.Spec)
}

// invalidPolicies is about the rules of what ends a Job.
func invalidPolicies(at string, j *batchv1.JobSpec, completions int32) error {
	if p := j.PodFailurePolicy; p != nil {
		for i, r := range p.Rules {
			where := fmt.Sprintf("%s.podFailurePolicy.rules[%d]", at, i)
			switch {
			case (r.OnExitCodes == nil) == (len(r.OnPodConditions) == 0):
				return fmt.Errorf("%s: it needs one of onExitCodes and onPodConditions", where)
			case r.Action == batchv1.PodFailurePolicyActionFailIndex && j.BackoffLimitPerIndex == nil:
				return fmt.Errorf("%s.action: FailIndex needs backoffLimitPerIndex", where)
			case r.OnExitCodes == nil:
			case len(r.OnExitCodes.Values) == 0:
				return fmt.Errorf("%s.onExitCodes.values: there are none", where)
			case r.OnExitCodes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && slices.Contains(r.OnExitCodes.Values, 0):
				return fmt.Errorf("%s.onExitCodes.values: 0 is no failure", where)
			case r.OnExitCodes.ContainerName != nil && !calls(*r.OnExitCodes.ContainerName, &j.Template.Spec):
				return fmt.Errorf("%s.onExitCodes.containerName: no container is called %s", where, *r.OnExitCodes.ContainerName)
			}
		}
	}
	if p := j.SuccessPolicy; p != nil {
		if len(p.Rules) == 0 {
			return fmt.Errorf("%s.successPolicy.rules: there are none", at)
		}
		for i, r := range p.Rules {
			where := fmt.Sprintf("%s.successPolicy.rules[%d]", at, i)
			if r.SucceededCount == nil && r.SucceededIndexes == nil {
				return fmt.Errorf("%s: it needs succeededCount or succeededIndexes", where)
			}
			most := completions
			if r.SucceededIndexes != nil {
				n, err := countIndexes(*r.SucceededIndexes, completions)
				if err != nil {
					return fmt.Errorf("%s.succeededIndexes: %w", where, err)
				}
				most = n
			}
			if n := ptr.Deref(r.SucceededCount, 0); n < 0 || n > most {
				return fmt.Errorf("%s.succeededCount: %d, and there are %d indexes", where, n, most)
			}
		}
	}
	return nil
}

// countIndexes says how many indexes a list like 0,2-4 has, which rises and stays below the number of completions.
func countIndexes(list string, completions int32) (total int32, err error) {
	if list == "" {
		return 0, nil
	}
	next := 0 // the least that may come
	for span := range strings.SplitSeq(list, ",") {
		first, last, several := strings.Cut(span, "-")
		from, err := strconv.Atoi(first)
		if err != nil {
			return 0, fmt.Errorf("%q is no index", first)
		}
		to := from
		if several {
			if to, err = strconv.Atoi(last); err != nil {
				return 0, fmt.Errorf("%q is no index", last)
			}
		}
		if from < next || to < from || several && to == from || to >= int(completions) {
			return 0, fmt.Errorf("%s is not in rising order below %d", span, completions)
		}
		total, next = total+int32(to-from+1), to+1
	}
	return total, nil
}

func calls(name string, spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(slices.Concat(spec.Containers, spec.InitContainers), func(c corev1.Container) bool { return c.Name == name })
}

// runsOn is about pods that are to run for good, and whether their maker would know them again.
func runsOn(s *metav1.LabelSelector, t *corev1.PodTemplateSpec) error {
	selector, err := metav1.LabelSelectorAsSelector(s)
	switch {
	case err != nil:
		return fmt.Errorf("spec.selector: %w", err)
	case s == nil || selector.Empty():
		return fmt.Errorf("spec.selector: it is empty")
	case !selector.Matches(labels.Set(t.Labels)):
		return fmt.Errorf("spec.selector: it does not match the labels of the template")
	case t.Spec.RestartPolicy != "" && t.Spec.RestartPolicy != corev1.RestartPolicyAlways:
		return fmt.Errorf("spec.template.spec.restartPolicy: only Always is allowed, and it is %s", t.Spec.RestartPolicy)
	case t.Spec.ActiveDeadlineSeconds != nil:
		return fmt.Errorf("spec.template.spec.activeDeadlineSeconds: it is not allowed in pods that are to run for good")
	}
	return invalidPod("spec.template.spec", &t.Spec)
}

// invalidStrategy is about a rollout that could neither make a pod nor take one away.
func invalidStrategy(s *appsv1.DeploymentStrategy) error {
	if s.Type == appsv1.RecreateDeploymentStrategyType && s.RollingUpdate != nil {
		return fmt.Errorf("spec.strategy.rollingUpdate: it is not allowed with type Recreate")
	}
	if u := s.RollingUpdate; u != nil && u.MaxSurge != nil && u.MaxUnavailable != nil && none(u.MaxSurge.String()) && none(u.MaxUnavailable.String()) {
		return fmt.Errorf("spec.strategy.rollingUpdate.maxUnavailable: it may not be 0 where maxSurge is 0 too")
	}
	return nil
}

func none(share string) bool { return strings.TrimSuffix(share, "%") == "0" }

// invalidPod is about one pod's fields.
func invalidPod(at string, s *corev1.PodSpec) error {
	if len(s.Containers) == 0 {
		return fmt.Errorf("%s.containers: there are none", at)
	}
	if s.NodeName != "" && len(s.SchedulingGates) > 0 {
		return fmt.Errorf("%s.nodeName: it is not allowed with schedulingGates", at)
	}
	if ptr.Deref(s.ActiveDeadlineSeconds, 1) <= 0 {
		return fmt.Errorf("%s.activeDeadlineSeconds: %d is not above zero", at, *s.ActiveDeadlineSeconds)
	}
	return firstOf(invalidNames(at, s), invalidContainers(at, s), invalidClaims(at, s), invalidWhole(at, s), invalidTolerations(at, s), invalidSpread(at, s), invalidAffinity(at, s))
}

func firstOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func invalidContainers(at string, s *corev1.PodSpec) error {
	seen, volumes := make(map[string]bool), make(map[string]bool)
	for i, v := range s.Volumes {
		if volumes[v.Name] {
			return fmt.Errorf("%s.volumes[%d].name: another volume is called %s too", at, i, v.Name)
		}
		volumes[v.Name] = true
	}
	for _, list := range []struct {
		field string
		all   []corev1.Container
	}{{"initContainers", s.InitContainers}, {"containers", s.Containers}} {
		for i := range list.all {
			c, where := &list.all[i], fmt.Sprintf("%s.%s[%d]", at, list.field, i)
			switch {
			case c.Name == "":
				return fmt.Errorf("%s.name: there is none", where)
			case c.Image == "":
				return fmt.Errorf("%s.image: there is none", where)
			case seen[c.Name]:
				return fmt.Errorf("%s.name: another container is called %s too", where, c.Name)
			}
			seen[c.Name] = true
			for k, m := range c.VolumeMounts {
				if !volumes[m.Name] {
					return fmt.Errorf("%s.volumeMounts[%d].name: no volume is called %s", where, k, m.Name)
				}
			}
		}
	}
	return nil
}

func invalidClaims(at string, s *corev1.PodSpec) error {
	claims := make(map[string]bool)
	for i, c := range s.ResourceClaims {
		if (c.ResourceClaimName == nil) == (c.ResourceClaimTemplateName == nil) {
			return fmt.Errorf("%s.resourceClaims[%d]: it needs one of resourceClaimName and resourceClaimTemplateName", at, i)
		}
		claims[c.Name] = true
	}
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		for _, r := range c.Resources.Claims {
			if !claims[r.Name] {
				return fmt.Errorf("%s: container %s uses resource claim %s, which the pod does not have", at, c.Name, r.Name)
			}
		}
	}
	return nil
}

// invalidWhole is about what is said for a pod as a whole: of a few resources alone, and no less than for its containers.
func invalidWhole(at string, s *corev1.PodSpec) error {
	if s.Resources == nil {
		return nil
	}
	//archtest:any-order whichever is named, the pod is refused
	for _, list := range []corev1.ResourceList{s.Resources.Requests, s.Resources.Limits} {
		//archtest:any-order whichever is named, the pod is refused
		for name := range list {
			if !podLevel(name) {
				return fmt.Errorf("%s.resources: %s cannot be asked for by a pod as a whole", at, name)
			}
		}
	}
	return nil
}

func invalidTolerations(at string, s *corev1.PodSpec) error {
	for i, t := range s.Tolerations {
		where := fmt.Sprintf("%s.tolerations[%d]", at, i)
		switch {
		case t.Operator == corev1.TolerationOpExists && t.Value != "":
			return fmt.Errorf("%s.value: with operator Exists it has to be empty", where)
		case t.Key == "" && t.Operator != corev1.TolerationOpExists:
			return fmt.Errorf("%s.operator: without a key it has to be Exists", where)
		case t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute:
			return fmt.Errorf("%s.effect: with tolerationSeconds it has to be NoExecute", where)
		}
	}
	return nil
}

func invalidSpread(at string, s *corev1.PodSpec) error {
	seen := make(map[string]bool)
	for i, c := range s.TopologySpreadConstraints {
		where := fmt.Sprintf("%s.topologySpreadConstraints[%d]", at, i)
		key := c.TopologyKey + " " + string(c.WhenUnsatisfiable)
		switch {
		case c.MaxSkew <= 0:
			return fmt.Errorf("%s.maxSkew: %d is not above zero", where, c.MaxSkew)
		case c.TopologyKey == "":
			return fmt.Errorf("%s.topologyKey: there is none", where)
		case c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway:
			return fmt.Errorf("%s.whenUnsatisfiable: it is DoNotSchedule or ScheduleAnyway, and not %q", where, c.WhenUnsatisfiable)
		case c.MinDomains != nil && c.WhenUnsatisfiable != corev1.DoNotSchedule:
			return fmt.Errorf("%s.minDomains: it needs whenUnsatisfiable DoNotSchedule", where)
		case c.MinDomains != nil && *c.MinDomains <= 0:
			return fmt.Errorf("%s.minDomains: %d is not above zero", where, *c.MinDomains)
		case len(c.MatchLabelKeys) > 0 && c.LabelSelector == nil:
			return fmt.Errorf("%s.matchLabelKeys: it needs a labelSelector", where)
		case seen[key]:
			return fmt.Errorf("%s: another constraint is over %s too", where, key)
		}
		seen[key] = true
	}
	return nil
}

func invalidAffinity(at string, s *corev1.PodSpec) error {
	a := s.Affinity
	if a == nil {
		return nil
	}
	if n := a.NodeAffinity; n != nil {
		if err := invalidNodeAffinity(at+".affinity.nodeAffinity", n); err != nil {
			return err
		}
	}
	var terms []corev1.PodAffinityTerm
	var weighted []corev1.WeightedPodAffinityTerm
	if a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for _, w := range weighted {
		if !weighs(w.Weight) {
			return fmt.Errorf("%s.affinity: a preference between pods has weight %d, and 1 to 100 are allowed", at, w.Weight)
		}
		terms = append(terms, w.PodAffinityTerm)
	}
	for _, t := range terms {
		if t.TopologyKey == "" {
			return fmt.Errorf("%s.affinity: a rule between pods has no topologyKey", at)
		}
	}
	return nil
}

func invalidNodeAffinity(at string, a *corev1.NodeAffinity) error {
	terms := func(field string, all ...corev1.NodeSelectorTerm) error {
		for i, t := range all {
			for k, e := range slices.Concat(t.MatchExpressions, t.MatchFields) {
				if !operands(e.Operator, len(e.Values)) {
					return fmt.Errorf("%s.%s[%d]: expression %d on %s has operator %s and %d values", at, field, i, k, e.Key, e.Operator, len(e.Values))
				}
			}
		}
		return nil
	}
	if n := a.RequiredDuringSchedulingIgnoredDuringExecution; n != nil {
		const field = "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
		if len(n.NodeSelectorTerms) == 0 {
			return fmt.Errorf("%s.%s: there are none", at, field)
		}
		if err := terms(field, n.NodeSelectorTerms...); err != nil {
			return err
		}
	}
	const field = "preferredDuringSchedulingIgnoredDuringExecution"
	for i, p := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		if !weighs(p.Weight) {
			return fmt.Errorf("%s.%s[%d].weight: it is %d, and 1 to 100 are allowed", at, field, i, p.Weight)
		}
		if err := terms(field, p.Preference); err != nil {
			return err
		}
	}
	return nil
}

func weighs(weight int32) bool { return weight >= 1 && weight <= 100 }

// operands says whether the operator takes so many values.
func operands(o corev1.NodeSelectorOperator, n int) bool {
	switch o {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		return n > 0
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		return n == 0
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		return n == 1
	}
	return false
}
