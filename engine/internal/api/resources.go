package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// MaxAmount bounds every single amount, so that sums over a cluster stay within an int64.
const MaxAmount = 1 << 50

// Get returns the amount of the resource, 0 when it is not named.
func (r Resources) Get(resource string) int64 {
	for _, a := range r {
		if a.Resource == resource {
			return a.Value
		}
	}
	return 0
}

// Sorted returns the amounts by name, leaving r as it is. The result may share its memory: do not write to it.
func (r Resources) Sorted() Resources {
	byName := func(a, b Amount) int { return strings.Compare(a.Resource, b.Resource) }
	if slices.IsSortedFunc(r, byName) {
		return slices.Clip(r)
	}
	c := slices.Clone(r)
	slices.SortFunc(c, byName)
	return c
}

// Plus returns the sums of both, sorted.
func (r Resources) Plus(o Resources) Resources {
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
	//archtest:any-order the result is sorted
	for name, value := range m {
		out = append(out, Amount{Resource: name, Value: value})
	}
	*r = out.Sorted()
	return nil
}

// Check says what is wrong with the amounts, "" if nothing is.
func (r Resources) Check() string {
	for i, a := range r {
		switch {
		case a.Resource == "":
			return "a resource without a name"
		case a.Value < 0:
			return fmt.Sprintf("%s is negative (%d)", a.Resource, a.Value)
		case a.Value > MaxAmount:
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
