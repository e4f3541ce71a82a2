package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// rename are the edits for a field of the pod that names an object which does not exist: the name that it is most like,
// where one is close, and no name at all.
func (c *Case) rename(field, kind, wrong string, have []string) []Edit {
	have = slices.DeleteFunc(slices.Clone(have), func(s string) bool { return strings.HasPrefix(s, "system-") })
	var out []Edit
	if near, ok := closest(wrong, have); ok {
		out = append(out, Edit{
			Side: Workload, Cost: 1, Text: fmt.Sprintf("name %s %s instead of %s", kind, near, wrong),
			Ops: []Op{{Op: "replace", Path: Pointer("spec", field), Value: near}},
		})
	}
	return append(out, Edit{
		Side: Workload, Cost: 2, Text: fmt.Sprintf("take %s %s out", field, wrong),
		Ops: []Op{{Op: "remove", Path: Pointer("spec", field)}},
	})
}

// closest is the name that is so like the wrong one that it may have been meant.
func closest(wrong string, have []string) (string, bool) {
	if len(have) == 0 {
		return "", false
	}
	near := byLikeness(wrong, have)[0]
	d := distance(strings.ToLower(wrong), strings.ToLower(near))
	return near, d <= max(2, len(wrong)/4) || strings.Contains(near, wrong) || strings.Contains(wrong, near)
}

// byLikeness are the names, the one most like the word first.
func byLikeness(word string, names []string) []string {
	out := slices.Clone(names)
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(distance(strings.ToLower(word), strings.ToLower(a)), distance(strings.ToLower(word), strings.ToLower(b))), strings.Compare(a, b))
	})
	return out
}
