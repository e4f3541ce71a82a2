package dialect

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Readers of objects whose Go types are another project's. What is not there, or of another shape, reads as empty.

// Value is what lies at the path of a JSON tree, nil where nothing does.
func Value(at any, path ...string) any {
	for _, key := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[key]
	}
	return at
}

func Text(at any, path ...string) string {
	s, _ := Value(at, path...).(string)
	return s
}

// Number reads a count; JSON that came through different decoders has it as different types.
func Number(at any, path ...string) (int64, bool) {
	switch v := Value(at, path...).(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), true
	case int:
		return int64(v), true
	}
	return 0, false
}

// Items reads a list of objects.
func Items(at any, path ...string) []map[string]any {
	list, _ := Value(at, path...).([]any)
	var out []map[string]any
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// Strings reads a list of strings.
func Strings(at any, path ...string) []string {
	list, _ := Value(at, path...).([]any)
	var out []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// StringMap reads a map of strings.
func StringMap(at any, path ...string) map[string]string {
	m, _ := Value(at, path...).(map[string]any)
	out := make(map[string]string, len(m))
	for k, v := range m {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}

// Condition is a condition of an object.
type Condition struct {
	Status, Reason, Message string
	At                      time.Time
}

// ConditionOf reads the condition of the type, nil where there is none.
func ConditionOf(u *unstructured.Unstructured, kind string) *Condition {
	if u == nil {
		return nil
	}
	for _, c := range Items(u.Object, "status", "conditions") {
		if Text(c, "type") == kind {
			return &Condition{Status: Text(c, "status"), Reason: Text(c, "reason"), Message: Text(c, "message"), At: Time(c, "lastTransitionTime")}
		}
	}
	return nil
}

// IsTrue says whether the object has the condition with status True.
func IsTrue(u *unstructured.Unstructured, kind string) bool {
	s := ConditionOf(u, kind)
	return s != nil && s.Status == string(metav1.ConditionTrue)
}

func Time(at any, path ...string) time.Time {
	t, err := time.Parse(time.RFC3339, Text(at, path...))
	if err != nil {
		return time.Time{}
	}
	return t
}

// Decode reads a JSON tree into a Go value.
func Decode(tree, into any) bool {
	b, err := json.Marshal(tree)
	return err == nil && json.Unmarshal(b, into) == nil
}
