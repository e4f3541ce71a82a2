package l3

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/internal/spelling"
)

// rename are the edits for a field of the pod that names an object which does not exist: the name that it is most like,
// where one is close, and no name at all.
func rename(c *check.Case, field, kind, wrong string, have []string) []edit.Edit {
	have = slices.DeleteFunc(slices.Clone(have), func(s string) bool { return strings.HasPrefix(s, "system-") })
	var out []edit.Edit
	if near, ok := spelling.Closest(wrong, have); ok {
		out = append(out, edit.Edit{
			Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("name %s %s instead of %s", kind, near, wrong),
			Ops: []edit.Op{{Op: "replace", Path: edit.Pointer("spec", field), Value: near}},
		})
	}
	return append(out, edit.Edit{
		Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("take %s %s out", field, wrong),
		Ops: []edit.Op{{Op: "remove", Path: edit.Pointer("spec", field)}},
	})
}
