package diagnose

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
)

var gpuRequestInvalidCheck = Check{
	Cause: "gpu-request-invalid", Layer: L3, Owner: User, Stage: Create, Rank: 5,
	Title:   "The request for GPUs is not valid",
	Meaning: "GPUs come whole, their request equals their limit, and their name has a vendor before the slash. The API server refuses pods that say otherwise. A job of another project's kind is accepted, and only its operator is told.",
	Remedy:  "Give whole GPUs under limits, with the name that the nodes advertise, as in nvidia.com/gpu: 1.",
	Not:     "The operator is broken: it tries, and the API server refuses.",
	Find:    gpuRequestInvalid,
}

func gpuRequestInvalid(c *Case) []Finding {
	var out []Finding
	for _, t := range c.templates() {
		for i := range t.Spec.Containers {
			for _, w := range c.wrongAsks(&t.Spec.Containers[i]) {
				at := fmt.Sprintf("spec.containers[%d].resources", i)
				f := Finding{
					Message:  fmt.Sprintf("container %s of %s %s", t.Spec.Containers[i].Name, facts.RefTo(t.of), w.said),
					Evidence: []facts.Evidence{{Object: facts.RefTo(t.of).In(), Field: strings.ReplaceAll(strings.TrimPrefix(t.path, "/"), "/", ".") + "." + at, Value: w.value}},
				}
				if r := c.deniedBy(byValidation); r != nil {
					f.Evidence = append(f.Evidence, r.Evidence)
				}
				if w.ops != nil {
					f.Edits = []edit.Edit{c.rewritten(t, i, w)}
				}
				out = append(out, f)
			}
		}
	}
	return out
}

// rewritten is the edit of the template of an object.
func (c *Case) rewritten(t placedTemplate, i int, w wrongAsk) edit.Edit {
	ops := make([]edit.Op, len(w.ops))
	for j, op := range w.ops {
		op.Path = fmt.Sprintf("%s/spec/containers/%d/resources%s", t.path, i, op.Path)
		ops[j] = op
	}
	e := edit.Edit{Side: edit.Workload, Cost: 1, Text: w.text}
	n, err := edit.Patch(t.of, "", ops)
	if err != nil {
		return e
	}
	r := facts.RefTo(t.of)
	e.Set = []facts.Object{n}
	e.Command = fmt.Sprintf("kubectl get %s %s -n %s -o json | kubectl patch --local -f - --type=json -p %s -o json | kubectl replace --force -f -", facts.KindOfObject(t.of).Name(), r.Name, r.Namespace, edit.QuoteOps(ops))
	return e
}
