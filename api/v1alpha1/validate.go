package v1alpha1

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of a pool. The names leave room for what is added to them: a pool's name gets
// -block or -99999, a rack's name -99999, and each of them must fit a label value of 63.
const (
	maxPoolName  = 50
	maxPlaceName = 57
	maxNodes     = 100_000
	maxPods      = 10_000
	maxGPUs      = 64 // in one node; the largest machine sold has 16
	maxModels    = 8  // in one node
)

// Validate says what is wrong with a pool that went through Default, in the order of the
// fields. It does not know GPU models: fleet/file checks those.
func Validate(p *Pool) field.ErrorList {
	errs := validateMeta(p)
	s, spec := &p.Spec, field.NewPath("spec")
	errs = append(errs, validateNodes(s, spec)...)
	errs = append(errs, oneOf(spec.Child("role"), s.Role, RoleWorker, RoleControlPlane)...)
	errs = append(errs, validateGPUs(s, spec)...)
	errs = append(errs, validateMachine(s, spec)...)
	errs = append(errs, validateExtended(s.ExtendedResources, spec.Child("extendedResources"))...)
	errs = append(errs, validateLabels(s.Labels, spec.Child("labels"))...)
	errs = append(errs, validateTaints(p.NodeTaints(), len(s.Taints), spec.Child("taints"))...)
	errs = append(errs, validateTopology(&s.Topology, spec.Child("topology"))...)
	if s.Placement != "" {
		errs = append(errs, oneOf(spec.Child("placement"), s.Placement, PlacementPack, PlacementSpread, PlacementWholeNode)...)
	}
	if s.WorkloadClass != "" {
		errs = append(errs, oneOf(spec.Child("workloadClass"), s.WorkloadClass,
			ClassTraining, ClassInference, ClassBatch, ClassInteractive, ClassSystem)...)
	}
	errs = append(errs, validateBoot(&s.Boot, spec.Child("boot"))...)
	errs = append(errs, validateLaunch(s, spec)...)
	return append(errs, validateSupply(s, spec)...)
}

func validateMeta(p *Pool) field.ErrorList {
	meta := field.NewPath("metadata")
	errs := validatePoolName(p.Name, meta.Child("name"))
	if p.Namespace != "" {
		errs = append(errs, field.Forbidden(meta.Child("namespace"), "a Pool belongs to the whole cluster; remove the line"))
	}
	errs = append(errs, metavalidation.ValidateLabels(p.Labels, meta.Child("labels"))...)
	return append(errs, apivalidation.ValidateAnnotations(p.Annotations, meta.Child("annotations"))...)
}

func validatePoolName(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "name the pool; its nodes are called NAME-0, NAME-1, ...")}
	}
	if len(name) > maxPoolName || len(validation.IsDNS1123Label(name)) > 0 {
		return field.ErrorList{field.Invalid(at, name,
			fmt.Sprintf("must be at most %d of a-z, 0-9 and -, with a letter or digit at both ends", maxPoolName))}
	}
	return nil
}

func validateNodes(s *PoolSpec, spec *field.Path) field.ErrorList {
	at := spec.Child("nodes")
	if s.Nodes == nil {
		return field.ErrorList{field.Required(at, "say how many nodes the pool has, or list nodeNames")}
	}
	errs := between(at, int64(*s.Nodes), 0, maxNodes)
	if s.NodeNames == nil {
		return errs
	}
	if int(*s.Nodes) != len(s.NodeNames) {
		errs = append(errs, field.Invalid(at, *s.Nodes,
			fmt.Sprintf("must be %d, the number of nodeNames; leave nodes out", len(s.NodeNames))))
	}
	return append(errs, validateNodeNames(s.NodeNames, spec.Child("nodeNames"))...)
}

func validateNodeNames(names []string, at *field.Path) field.ErrorList {
	if len(names) == 0 {
		return field.ErrorList{field.Required(at, "list at least one name, or give nodes a count")}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, name := range names {
		if len(name) > validation.LabelValueMaxLength || len(validation.IsDNS1123Subdomain(name)) > 0 {
			errs = append(errs, field.Invalid(at.Index(i), name,
				"must be a node name: at most 63 of a-z, 0-9, - and ., with a letter or digit at both ends"))
		}
		if seen[name] {
			errs = append(errs, field.Duplicate(at.Index(i), name))
		}
		seen[name] = true
	}
	return errs
}

// maxExtended is how many extended resources a node has, and maxExtendedAmount how much of each.
const (
	maxExtended       = 16
	maxExtendedAmount = 1_000_000
)

// partsOfGPUs are the resources by which NVIDIA's and HAMi's device plugins, and others that share GPUs, offer them and parts of them. What
// NVIDIA's network operator offers has the same domain: nvidia.com/hostdev.
var partsOfGPUs = regexp.MustCompile(`^nvidia\.com/(v?gpu|mig-|priority$)`)

// validateExtended refuses what is no extended resource by Kubernetes' rule, and what other fields of a pool decide.
func validateExtended(amounts map[string]int32, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(amounts) > maxExtended {
		errs = append(errs, field.TooMany(at, len(amounts), maxExtended))
	}
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		domain, _, qualified := strings.Cut(name, "/")
		switch {
		case len(validation.IsQualifiedName(name)) > 0 || !qualified || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix):
			errs = append(errs, field.Invalid(at.Key(name), name, "must be an extended resource such as google.com/tpu"))
		case domain == "berth.dev" || domain == "nvidia.com" && partsOfGPUs.MatchString(name):
			errs = append(errs, field.Forbidden(at.Key(name), "is set from spec.gpus, spec.mig and spec.sharing; use those"))
		}
		errs = append(errs, between(at.Key(name), int64(amounts[name]), 0, maxExtendedAmount)...)
	}
	return errs
}

func validateLabels(labels map[string]string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if owner := labelOwner(key); owner != "" {
			errs = append(errs, field.Forbidden(at.Key(key), "is set from "+owner+"; use that"))
		}
		if len(validation.IsQualifiedName(key)) > 0 {
			errs = append(errs, field.Invalid(at.Key(key), key, "must be a label key such as team or example.com/team"))
		}
		if len(validation.IsValidLabelValue(labels[key])) > 0 {
			errs = append(errs, field.Invalid(at.Key(key), labels[key], labelValueRule(validation.LabelValueMaxLength)))
		}
	}
	return errs
}

// labelOwner is the field that sets the label key, or empty where users may set it.
func labelOwner(key string) string {
	switch key {
	case corev1.LabelHostname:
		return "the node's name"
	case LabelPool:
		return "metadata.name"
	case LabelPlacement:
		return "spec.placement"
	case LabelWorkloadClass:
		return "spec.workloadClass"
	case LabelRegion, LabelZone, LabelBlock, LabelRack, LabelClique:
		return "spec.topology"
	case LabelControlPlane:
		return "spec.role"
	}
	return ""
}

// validateTaints looks at a node's whole list: first what the role adds, then the last own
// taints, which are the user's.
func validateTaints(taints []corev1.Taint, own int, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, t := range taints {
		at := at.Index(i - (len(taints) - own))
		id := t.Key + ":" + string(t.Effect)
		if seen[id] {
			errs = append(errs, field.Duplicate(at, id))
		}
		seen[id] = true
		if len(validation.IsQualifiedName(t.Key)) > 0 {
			errs = append(errs, field.Invalid(at.Child("key"), t.Key, "must be a taint key such as nvidia.com/gpu"))
		}
		if len(validation.IsValidLabelValue(t.Value)) > 0 {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, labelValueRule(validation.LabelValueMaxLength)))
		}
		errs = append(errs, oneOf(at.Child("effect"), t.Effect,
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
	}
	return errs
}

func labelValueRule(length int) string {
	return fmt.Sprintf("must be at most %d of A-Z, a-z, 0-9, -, _ and ., with a letter or digit at both ends", length)
}

// oneOf wants value to be one of the values; an empty one is missing.
func oneOf[T ~string](at *field.Path, value T, values ...T) field.ErrorList {
	if slices.Contains(values, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, values)}
}

func between(at *field.Path, n, low, high int64) field.ErrorList {
	switch {
	case n < 0:
		return field.ErrorList{field.Invalid(at, n, "must not be negative")}
	case n < low:
		return field.ErrorList{field.Invalid(at, n, fmt.Sprintf("must be at least %d", low))}
	case n > high:
		return field.ErrorList{field.Invalid(at, n, fmt.Sprintf("must be at most %d", high))}
	}
	return nil
}

// matches wants a text that is not empty to match the pattern.
func matches(at *field.Path, value string, pattern *regexp.Regexp, rule string) field.ErrorList {
	if value == "" || pattern.MatchString(value) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, value, rule)}
}
