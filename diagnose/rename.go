package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/spelling"
)

// rename are the edits for a field of the pod that names an object which does not exist: the name that it is most like,
// where one is close, and no name at all.
func (c *Case) rename(field, kind, wrong string, have []string) []Edit {
	have = slices.DeleteFunc(slices.Clone(have), func(s string) bool { return strings.HasPrefix(s, "system-") })
	var out []Edit
	if near, ok := spelling.Closest(wrong, have); ok {
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
