package fit

import (
	"errors"
	"fmt"
	"slices"
)

// PodTerm is a condition on pods near a node: those of the namespaces that have the labels, on the nodes that have the same
// value of the label Topology. A node without that label is in no domain of it.
type PodTerm struct {
	Topology   string        `json:"topology"`            // key of a node label
	Namespaces []string      `json:"namespaces,omitzero"` // sorted; nil: all, and a list without names: none
	Labels     []Requirement `json:"labels,omitzero"`     // on the pod; nil: matches no pod, and a list without requirements: all
}

// PodPreference is a term that adds its weight, for each pod that it matches, to the nodes of that pod's domain. A weight
// below 0 keeps the pods apart.
type PodPreference struct {
	Weight int32 `json:"weight"` // -100 to 100
	PodTerm
}

// Spread bounds how unevenly pods lie over the domains of a node label: the pods of the namespace that have the labels.
type Spread struct {
	Topology  string        `json:"topology"`
	Namespace string        `json:"namespace"`
	Labels    []Requirement `json:"labels,omitzero"` // as of a PodTerm
	// MaxSkew is by how many pods a domain may be above the one with the fewest, or above 0 where there are fewer domains than
	// MinDomains.
	MaxSkew    int32 `json:"maxSkew"`
	MinDomains int32 `json:"minDomains,omitempty"` // 0: 1
	Soft       bool  `json:"soft,omitempty"`       // a wish: ScheduleAnyway
	// AnyNode says that nodes which the pod's selector and affinity exclude count as domains too (nodeAffinityPolicy Ignore).
	AnyNode bool `json:"anyNode,omitempty"`
	// Untainted says that nodes with taints which the pod does not tolerate do not count (nodeTaintsPolicy Honor).
	Untainted bool `json:"untainted,omitempty"`
	// Default marks a wish that the pod's author did not write: nodes that lack the label of another one of them count all the same.
	Default bool `json:"default,omitempty"`
}

// Equal compares field by field.
func (t PodTerm) Equal(o PodTerm) bool {
	return t.Topology == o.Topology && (t.Namespaces == nil) == (o.Namespaces == nil) && slices.Equal(t.Namespaces, o.Namespaces) &&
		equalSelectors(t.Labels, o.Labels)
}

// Equal compares field by field.
func (p PodPreference) Equal(o PodPreference) bool {
	return p.Weight == o.Weight && p.PodTerm.Equal(o.PodTerm)
}

// Equal compares field by field.
func (s Spread) Equal(o Spread) bool {
	return s.Topology == o.Topology && s.Namespace == o.Namespace && equalSelectors(s.Labels, o.Labels) && s.MaxSkew == o.MaxSkew &&
		s.MinDomains == o.MinDomains && s.Soft == o.Soft && s.AnyNode == o.AnyNode && s.Untainted == o.Untainted && s.Default == o.Default
}

func equalSelectors(a, b []Requirement) bool {
	return (a == nil) == (b == nil) && slices.EqualFunc(a, b, func(a, b Requirement) bool {
		return a.Key == b.Key && a.Op == b.Op && slices.Equal(a.Values, b.Values)
	})
}

// Selects says whether the term is about a pod of the namespace with the labels, wherever that is.
func (t PodTerm) Selects(namespace string, labels map[string]string) bool {
	if t.Namespaces != nil {
		if _, ok := slices.BinarySearch(t.Namespaces, namespace); !ok {
			return false
		}
	}
	return SelectsLabels(t.Labels, labels)
}

// Selects says whether the constraint counts a pod of the namespace with the labels, wherever that is.
func (s Spread) Selects(namespace string, labels map[string]string) bool {
	return s.Namespace == namespace && SelectsLabels(s.Labels, labels)
}

// SelectsLabels says whether a pod's labels satisfy all requirements; nil is satisfied by none.
func SelectsLabels(selector []Requirement, labels map[string]string) bool {
	if selector == nil {
		return false
	}
	for i := range selector {
		v, has := labels[selector[i].Key]
		if !selector[i].MatchesValue(v, has) {
			return false
		}
	}
	return true
}

// Check returns why the term makes no sense.
func (t PodTerm) Check() error {
	if t.Topology == "" {
		return errors.New("topology: a rule between pods needs the key of a node label")
	}
	if !slices.IsSorted(t.Namespaces) {
		return errors.New("namespaces: they are not sorted")
	}
	return checkSelector(t.Labels)
}

// Check returns why the preference makes no sense.
func (p PodPreference) Check() error {
	if p.Weight < -100 || p.Weight > 100 {
		return fmt.Errorf("weight %d is not in -100 to 100", p.Weight)
	}
	return p.PodTerm.Check()
}

// Check returns why the constraint makes no sense.
func (s Spread) Check() error {
	switch {
	case s.Topology == "":
		return errors.New("topology: a spread constraint needs the key of a node label")
	case s.MaxSkew < 1:
		return fmt.Errorf("maxSkew: %d is not 1 or more", s.MaxSkew)
	case s.MinDomains < 0:
		return fmt.Errorf("minDomains: %d is negative", s.MinDomains)
	}
	return checkSelector(s.Labels)
}

func checkSelector(selector []Requirement) error {
	for _, r := range selector {
		if r.Op == Gt || r.Op == Lt {
			return fmt.Errorf("labels: %s is for labels of nodes", r.Op)
		}
		if err := r.Check(); err != nil {
			return err
		}
	}
	return nil
}
