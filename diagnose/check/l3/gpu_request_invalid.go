package l3

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
)

var gpuRequestInvalidCheck = check.Check{
	Cause: "gpu-request-invalid", Layer: check.L3, Owner: check.User, Stage: check.Create, Rank: 5,
	Title:   "The request for GPUs is not valid",
	Meaning: "GPUs come whole, their request equals their limit, and their name has a vendor before the slash. The API server refuses pods that say otherwise. A job of another project's kind is accepted, and only its operator is told.",
	Remedy:  "Give whole GPUs under limits, with the name that the nodes advertise, as in nvidia.com/gpu: 1.",
	Not:     "The operator is broken: it tries, and the API server refuses.",
	Find:    gpuRequestInvalid,
}

func gpuRequestInvalid(c *check.Case) []check.Finding {
	var out []check.Finding
	for _, t := range templates(c) {
		for i := range t.Spec.Containers {
			for _, w := range wrongAsks(c, &t.Spec.Containers[i]) {
				at := fmt.Sprintf("spec.containers[%d].resources", i)
				f := check.Finding{
					Message:  fmt.Sprintf("container %s of %s %s", t.Spec.Containers[i].Name, facts.RefTo(t.of), w.said),
					Evidence: []facts.Evidence{{Object: facts.RefTo(t.of).In(), Field: strings.ReplaceAll(strings.TrimPrefix(t.path, "/"), "/", ".") + "." + at, Value: w.value}},
				}
				if r := life.DeniedBy(c, life.ByValidation); r != nil {
					f.Evidence = append(f.Evidence, r.Evidence)
				}
				if w.ops != nil {
					f.Edits = []edit.Edit{rewritten(c, t, i, w)}
				}
				out = append(out, f)
			}
		}
	}
	return out
}

// rewritten is the edit of the template of an object.
func rewritten(c *check.Case, t placedTemplate, i int, w wrongAsk) edit.Edit {
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
