package v1alpha1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateLaunch looks at how machines come to be.
func validateLaunch(s *PoolSpec, spec *field.Path) field.ErrorList {
	var errs field.ErrorList
	if x := s.Selects; x != nil {
		at := spec.Child("selects")
		if (len(x.Labels) > 0) == (x.NodePool != "") {
			errs = append(errs, field.Invalid(at, "", "give labels or nodePool, one of them"))
		}
		if s.Launch != nil || len(s.NodeNames) > 0 || s.Nodes != nil && *s.Nodes != 0 || len(s.GPUs) > 0 {
			errs = append(errs, field.Forbidden(at, "is for nodes that others make: leave out launch, nodes, nodeNames and gpus"))
		}
	}
	l, at := s.Launch, spec.Child("launch")
	if l == nil {
		return errs
	}
	if len(s.NodeNames) > 0 || s.Nodes != nil && *s.Nodes != 0 {
		errs = append(errs, field.Forbidden(at, "decides how many nodes there are: leave out nodes and nodeNames"))
	}
	for i, from := range l.From {
		errs = append(errs, oneOf(at.Child("from").Index(i), from, CapacityReserved, CapacityOnDemand, CapacitySpot)...)
		if from == CapacityReserved && len(s.Reservations) == 0 {
			errs = append(errs, field.Invalid(at.Child("from").Index(i), from, "the pool has no reservations"))
		}
	}
	if l.Static != nil && (l.Min != nil || l.Max != nil || l.Headroom != nil) {
		errs = append(errs, field.Forbidden(at.Child("static"), "is how many machines there are: leave out min, max and headroom"))
	}
	for _, x := range []struct {
		name string
		n    *int32
	}{{"min", l.Min}, {"max", l.Max}, {"static", l.Static}, {"headroom", l.Headroom}} {
		if x.n != nil {
			errs = append(errs, between(at.Child(x.name), int64(*x.n), 0, maxNodes)...)
		}
	}
	if l.Min != nil && l.Max != nil && *l.Min > *l.Max {
		errs = append(errs, field.Invalid(at.Child("min"), *l.Min, "must be at most max"))
	}
	return append(errs, oneOf(at.Child("consolidation"), l.Consolidation, ConsolidateWhenEmpty, ConsolidateNever)...)
}
