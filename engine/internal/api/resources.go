package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine/why"
)

// MaxAmount bounds every single amount, so that sums over a cluster stay within an int64.
const MaxAmount = 1 << 50

// MaxGPUs bounds how many GPUs count in queues, so that sums of thousandths at any rate stay within an int64.
const MaxGPUs = 1 << 36

// Get returns the amount of the resource, 0 when it is not named.
func (r Resources) Get(resource string) int64 {
	for _, a := range r {
		if a.Resource == resource {
			return a.Value
		}
	}
	return 0
}

// Of returns the amount of the resource with its thousandths, 0 when it is not named.
func (r Resources) Of(resource string) Amount {
	for _, a := range r {
		if a.Resource == resource {
			return a
		}
	}
	return Amount{Resource: resource}
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
			milli := out[i].Milli + a.Milli
			out[i].Value += a.Value + milli/Whole
			out[i].Milli = milli % Whole
		}
	}
	return out.Sorted()
}

// MarshalJSON writes an object of amounts by resource name, sorted.
func (r Resources) MarshalJSON() ([]byte, error) {
	m := make(map[string]json.Number, len(r))
	for _, a := range r {
		m[a.Resource] = json.Number(NumberOf(a))
	}
	return json.Marshal(m)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Resources) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		*r = nil
		return nil
	}
	var m map[string]json.Number
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("resources: %w", err)
	}
	out := make(Resources, 0, len(m))
	//archtest:any-order the result is sorted
	for name, number := range m {
		a, err := amountOf(name, string(number))
		if err != nil {
			return err
		}
		out = append(out, a)
	}
	*r = out.Sorted()
	return nil
}

// NumberOf is the amount as JSON has it.
func NumberOf(a Amount) string {
	if a.Milli != 0 {
		return why.Thousandths(a.Value*Whole + a.Milli)
	}
	return strconv.FormatInt(a.Value, 10)
}

// amountOf reads a whole number, or one with up to three decimals.
func amountOf(resource, number string) (Amount, error) {
	a := Amount{Resource: resource}
	if number == "" { // null, which has always been 0
		return a, nil
	}
	whole, decimals, parts := strings.Cut(number, ".")
	var err error
	if a.Value, err = strconv.ParseInt(whole, 10, 64); err != nil {
		return a, fmt.Errorf("resources: %s: %w", resource, err)
	}
	if !parts {
		return a, nil
	}
	if a.Milli, err = strconv.ParseInt((decimals + "000")[:max(3, len(decimals))], 10, 64); err != nil || len(decimals) > 3 || number[0] == '-' {
		return a, fmt.Errorf("resources: %s: %s is not a number with up to three decimals, and not negative", resource, number)
	}
	return a, nil
}

// Check says what is wrong with the amounts, "" if nothing is. They are of whole things.
func (r Resources) Check() string {
	for _, a := range r {
		if a.Milli != 0 {
			return fmt.Sprintf("%s: %s is not a whole number", a.Resource, NumberOf(a))
		}
	}
	return r.checkParts()
}

// checkParts is Check for amounts of which some may be thousandths.
func (r Resources) checkParts() string {
	for i, a := range r {
		switch {
		case a.Resource == "":
			return "a resource without a name"
		case a.Value < 0:
			return fmt.Sprintf("%s is negative (%d)", a.Resource, a.Value)
		case a.Milli < 0 || a.Milli >= Whole:
			return fmt.Sprintf("%s: %d thousandths are not in 0 to %d", a.Resource, a.Milli, Whole-1)
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
