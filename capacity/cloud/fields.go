package cloud

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// fields reads one object and remembers which of its fields were understood.
type fields struct {
	tree map[string]any
	used map[string]bool
}

func (f *fields) at(path string) any {
	f.used[path] = true
	var v any = f.tree
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// has says whether the field is there, without taking it for understood.
func (f *fields) has(path string) bool {
	was := f.used[path]
	v := f.at(path)
	f.used[path] = was
	return v != nil
}

// lift has the fields of an object stand beside it, where none of their name does.
func (f *fields) lift(name string) {
	below, _ := f.tree[name].(map[string]any)
	if below == nil {
		return
	}
	out := maps.Clone(below)
	maps.Copy(out, f.tree)
	delete(out, name)
	f.tree = out
}

// text is a string; "" where there is none.
func (f *fields) text(path string) string {
	s, _ := f.at(path).(string)
	return s
}

// stateIn is what the state means that the field names. One that is not among them is kept aside, so that a person can read it.
func stateIn(f *fields, path string, known map[string]v1alpha1.ReservationState) v1alpha1.ReservationState {
	state, ok := known[f.text(path)]
	f.used[path] = ok
	return state
}

// number is a whole number, also where it is written as a string, as Google's are.
func (f *fields) number(path string) (int64, bool) {
	switch v := f.at(path).(type) {
	case float64:
		if n := int64(v); float64(n) == v && n > -1<<53 && n < 1<<53 {
			return n, true
		}
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	}
	return 0, false
}

// time is nil where there is none, or it cannot be read. The clouds differ in how they write the offset.
func (f *fields) time(path string) *metav1.Time {
	s := f.text(path)
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05.999999999-0700", "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() > 1970 && t.Year() < 10_000 {
			out := metav1.NewTime(t.UTC().Truncate(time.Second))
			return &out
		}
	}
	return nil
}

// last is the last part of a path or a URL.
func last(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

// aside are the fields that were not understood, by path, as far as they fit.
func (f *fields) aside() map[string]string {
	all := make(map[string]string)
	f.flatten("", f.tree, all, 0)
	paths := make([]string, 0, len(all))
	//archtest:any-order sorted below
	for path := range all {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	out := make(map[string]string)
	for _, path := range paths[:min(len(paths), maxAside)] {
		out[path] = all[path]
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// deepest bounds how far into a tree fields are looked for.
const deepest = 16

func (f *fields) flatten(path string, v any, out map[string]string, depth int) {
	if f.used[path] || depth > deepest || len(path) > maxPath {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		//archtest:any-order each goes under a path of its own
		for name, child := range v {
			f.flatten(strings.TrimPrefix(path+"."+name, "."), child, out, depth+1)
		}
	case []any:
		for i, child := range v {
			f.flatten(fmt.Sprintf("%s[%d]", path, i), child, out, depth+1)
		}
	case nil:
	default:
		s := strings.ToValidUTF8(fmt.Sprint(v), "?")
		if n, ok := v.(float64); ok {
			s = strconv.FormatFloat(n, 'f', -1, 64)
		}
		for len(s) > maxValue {
			s = strings.ToValidUTF8(s[:maxValue-3], "") + "..."
		}
		out[path] = s
	}
}
