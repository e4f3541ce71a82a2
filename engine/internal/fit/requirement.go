package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Matches tells whether a node with these labels meets the requirement. A malformed requirement, in the
// number or kind of its values, is met by no node.
func (r Requirement) Matches(labels map[string]string) bool {
	value, has := labels[r.Key]
	return r.MatchesValue(value, has)
}

// MatchesValue is Matches for a node whose label of the key has the value, or that has none.
func (r Requirement) MatchesValue(value string, has bool) bool {
	switch r.Op {
	case In:
		return has && slices.Contains(r.Values, value)
	case NotIn:
		return len(r.Values) > 0 && !(has && slices.Contains(r.Values, value))
	case Exists:
		return has && len(r.Values) == 0
	case DoesNotExist:
		return !has && len(r.Values) == 0
	case Gt, Lt:
		return has && len(r.Values) == 1 && compares(value, r.Op, r.Values[0])
	}
	return false
}

// compares tells whether value is more (Gt) or less (Lt) than bound; no text but an integer is either.
func compares(value string, op Op, bound string) bool {
	v, ok := integer(value)
	b, fine := integer(bound)
	if !ok || !fine {
		return false
	}
	if op == Gt {
		return v > b
	}
	return v < b
}

// integer reads what strconv.ParseInt reads in base 10, without allocating an error where a label is no
// number, which is the common case of a mismatch.
func integer(s string) (n int64, ok bool) {
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	if s == "" {
		return 0, false
	}
	for i := range len(s) { // n is kept negative, for that range is the larger
		digit := int64(s[i]) - '0'
		if digit < 0 || digit > 9 || n < math.MinInt64/10 || n*10 < math.MinInt64+digit {
			return 0, false
		}
		n = n*10 - digit
	}
	if negative {
		return n, true
	}
	return -n, n != math.MinInt64
}

// Check says what is wrong with the requirement as one on a label, naming it.
func (r Requirement) Check() error {
	if complaint := r.complaint(); complaint != "" {
		return fmt.Errorf("requirement %q: %s", r.String(), complaint)
	}
	return nil
}

func (r Requirement) complaint() string {
	if !isLabelKey(r.Key) {
		return "the key is not a label key"
	}
	for _, v := range r.Values {
		if !isLabelValue(v) {
			return fmt.Sprintf("%q is not a label value", v)
		}
	}
	switch r.Op {
	case In, NotIn:
		if len(r.Values) == 0 {
			return string(r.Op) + " needs at least one value"
		}
	case Exists, DoesNotExist:
		if len(r.Values) > 0 {
			return string(r.Op) + " takes no value"
		}
	case Gt, Lt:
		if len(r.Values) != 1 {
			return string(r.Op) + " needs exactly one value"
		}
		if _, ok := integer(r.Values[0]); !ok {
			return fmt.Sprintf("%q is not a 64-bit integer", r.Values[0])
		}
	default:
		return fmt.Sprintf("unknown operator %q", r.Op)
	}
	return ""
}

// String is the requirement as kubectl's label selectors write it.
func (r Requirement) String() string {
	values := strings.Join(r.Values, ",")
	switch r.Op {
	case In:
		return r.Key + " in (" + values + ")"
	case NotIn:
		return r.Key + " notin (" + values + ")"
	case Exists:
		return r.Key
	case DoesNotExist:
		return "!" + r.Key
	case Gt:
		return r.Key + ">" + values
	case Lt:
		return r.Key + "<" + values
	}
	return r.Key + " " + string(r.Op) + " (" + values + ")"
}
