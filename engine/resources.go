package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// maxAmount bounds every single amount, so that sums over a cluster stay within an int64.
const maxAmount = 1 << 50

// Get returns the amount of the resource, 0 when it is not named.
func (r Resources) Get(resource string) int64 {
	for _, a := range r {
		if a.Resource == resource {
			return a.Value
		}
	}
	return 0
}

// Sorted returns the amounts by name, leaving r as it is.
func (r Resources) Sorted() Resources {
	c := slices.Clone(r)
	slices.SortFunc(c, func(a, b Amount) int { return strings.Compare(a.Resource, b.Resource) })
	return c
}

// plus returns the sums of both, sorted.
func (r Resources) plus(o Resources) Resources {
	if len(o) == 0 {
		return r
	}
	out := slices.Clone(r)
	for _, a := range o {
		i := slices.IndexFunc(out, func(b Amount) bool { return b.Resource == a.Resource })
		if i < 0 {
			out = append(out, a)
		} else {
			out[i].Value += a.Value
		}
	}
	return out.Sorted()
}

// MarshalJSON writes an object of amounts by resource name, sorted.
func (r Resources) MarshalJSON() ([]byte, error) {
	m := make(map[string]int64, len(r))
	for _, a := range r {
		m[a.Resource] = a.Value
	}
	return json.Marshal(m)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Resources) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		*r = nil
		return nil
	}
	var m map[string]int64
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("resources: %w", err)
	}
	out := make(Resources, 0, len(m))
	for name, value := range m {
		out = append(out, Amount{Resource: name, Value: value})
	}
	*r = out.Sorted()
	return nil
}

// check says what is wrong with the amounts, "" if nothing is.
func (r Resources) check() string {
	for i, a := range r {
		switch {
		case a.Resource == "":
			return "a resource without a name"
		case a.Value < 0:
			return fmt.Sprintf("%s is negative (%d)", a.Resource, a.Value)
		case a.Value > maxAmount:
			return fmt.Sprintf("%s is too large (%d)", a.Resource, a.Value)
		}
		for _, b := range r[:i] {
			if a.Resource == b.Resource {
				return a.Resource + " is named twice"
			}
		}
	}
	return ""
}

// dimensions numbers the resources seen so far. Numbers are positions in vectors, and decide nothing.
type dimensions struct {
	names []string
	ids   map[string]int
}

// The first dimensions are always there, so that hot paths can name them.
const (
	dimPods = iota
	dimGPU
)

func newDimensions(gpu string) *dimensions {
	d := &dimensions{ids: make(map[string]int)}
	d.id(Pods)
	d.id(gpu)
	return d
}

// id returns the number of the resource, giving it the next one if it is new.
func (d *dimensions) id(resource string) int {
	for i, name := range d.names[:min(len(d.names), 8)] {
		if name == resource {
			return i
		}
	}
	i, ok := d.ids[resource]
	if !ok {
		i = len(d.names)
		d.names = append(d.names, resource)
		d.ids[resource] = i
	}
	return i
}

// vector holds amounts by dimension; positions beyond its end are zero.
type vector []int64

func (v vector) at(dim int) int64 {
	if dim < len(v) {
		return v[dim]
	}
	return 0
}

func (v *vector) add(dim int, amount int64) {
	for len(*v) <= dim {
		*v = append(*v, 0)
	}
	(*v)[dim] += amount
}

// demand is one positive request.
type demand struct {
	dim    int
	amount int64
}

// demands are the positive requests of a pod, its place among the node's pods first.
func (d *dimensions) demands(r Resources) []demand {
	out := make([]demand, 0, len(r)+1)
	out = append(out, demand{dimPods, 1})
	for _, a := range r {
		if a.Value > 0 && a.Resource != Pods {
			out = append(out, demand{d.id(a.Resource), a.Value})
		}
	}
	return out
}
