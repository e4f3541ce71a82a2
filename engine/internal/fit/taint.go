package fit

import (
	"fmt"
	"strconv"
)

// Tolerates tells whether the toleration lets its pod onto nodes with the taint. The comparing operators, Lt and
// Gt, are behind a gate in Kubernetes 1.37: where it is off, no pod comes with them.
func (t Toleration) Tolerates(taint Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Op {
	case "", "Equal":
		return t.Value == taint.Value
	case "Exists":
		return true
	case "Lt", "Gt":
		return t.compares(taint)
	}
	return false
}

// compares the two values as whole numbers; what is none tolerates nothing.
func (t Toleration) compares(taint Taint) bool {
	bound, ok := wholeNumber(t.Value)
	value, also := wholeNumber(taint.Value)
	if !ok || !also {
		return false
	}
	if t.Op == "Lt" {
		return value < bound
	}
	return value > bound
}

// wholeNumber reads a number as it is written canonically: no plus sign, no leading zeros.
func wholeNumber(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
}

// Check says what is wrong with the toleration, naming it.
func (t Toleration) Check() error {
	if complaint := t.complaint(); complaint != "" {
		return fmt.Errorf("toleration {key %q, operator %q, value %q, effect %q}: %s",
			t.Key, t.Op, t.Value, t.Effect, complaint)
	}
	return nil
}

func (t Toleration) complaint() string {
	if t.Key != "" && !isLabelKey(t.Key) {
		return "the key is not a label key"
	}
	if t.Effect != "" && !t.Effect.known() {
		return "unknown effect"
	}
	switch t.Op {
	case "", "Equal":
		if t.Key == "" {
			return "an empty key needs the operator Exists"
		}
		if !isLabelValue(t.Value) {
			return "the value is not a label value"
		}
	case "Exists":
		if t.Value != "" {
			return "Exists takes no value"
		}
	case "Lt", "Gt":
		if t.Key == "" {
			return "an empty key needs the operator Exists"
		}
		if _, ok := wholeNumber(t.Value); !ok {
			return "the value is not a whole number"
		}
	default:
		return "unknown operator"
	}
	return ""
}

// Untolerated appends to dst the taints that keep a pod with these tolerations off a node, in their order.
func Untolerated(taints []Taint, tolerations []Toleration, dst []Taint) []Taint {
	for _, t := range taints {
		if (t.Effect == NoSchedule || t.Effect == NoExecute) && !tolerated(t, tolerations) {
			dst = append(dst, t)
		}
	}
	return dst
}

// Discouraging counts the taints that make a node less welcome to a pod with these tolerations.
func Discouraging(taints []Taint, tolerations []Toleration) int {
	n := 0
	for _, t := range taints {
		if t.Effect == PreferNoSchedule && !tolerated(t, tolerations) {
			n++
		}
	}
	return n
}

func tolerated(taint Taint, tolerations []Toleration) bool {
	for i := range tolerations {
		if tolerations[i].Tolerates(taint) {
			return true
		}
	}
	return false
}

// Unschedulable is the taint that a cordoned node has in effect, whether it is among its taints or not.
func Unschedulable() Taint {
	return Taint{Key: "node.kubernetes.io/unschedulable", Effect: NoSchedule}
}

// Check says what is wrong with the taint, naming it.
func (t Taint) Check() error {
	switch {
	case !isLabelKey(t.Key):
		return fmt.Errorf("taint %q: the key is not a label key", t.String())
	case !isLabelValue(t.Value):
		return fmt.Errorf("taint %q: the value is not a label value", t.String())
	case !t.Effect.known():
		return fmt.Errorf("taint %q: unknown effect", t.String())
	}
	return nil
}

func (e Effect) known() bool {
	return e == NoSchedule || e == PreferNoSchedule || e == NoExecute
}

// String is the taint as kubectl writes it: key=value:effect, or key:effect without a value.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}
