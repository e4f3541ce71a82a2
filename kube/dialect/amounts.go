package dialect

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Amounts are of resources by name. Clients write them as text or as numbers.
type Amounts map[string]resource.Quantity

// MaxResources is how many resources a BerthQueue has.
const MaxResources = 16

// Named are the resources that any of the amounts are of, sorted. Where a queue cannot have so many there are none, and problem says
// so.
func Named(all ...Amounts) (names []string, problem string) {
	for _, a := range all {
		names = slices.AppendSeq(names, maps.Keys(a))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > MaxResources {
		return nil, fmt.Sprintf("it names %d resources: the limit is %d", len(names), MaxResources)
	}
	return names, ""
}

// Of is the amount of a resource, nil for none. One below 0 has no effect: it is added to unread as part of the field.
func (a Amounts) Of(name, field string, unread *[]string) *resource.Quantity {
	q, ok := a[name]
	if !ok {
		return nil
	}
	if q.Sign() < 0 {
		*unread = append(*unread, fmt.Sprintf("%s.%s (below 0)", field, name))
		return nil
	}
	return &q
}
