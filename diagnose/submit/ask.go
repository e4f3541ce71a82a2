package submit

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/submit/rule"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

// worst is the diagnosis of the first part of the workload that something is in the way of, or of the first.
func (c *checker) worst(p *planner, s *submission) (out diagnose.Diagnosis, part string, ok bool) {
	seen := make(map[string]bool)
	for i := range s.Parts {
		at := &s.Parts[i]
		if len(at.Pods) == 0 || seen[at.Template] {
			continue // Jobs of one template are all alike
		}
		seen[at.Template] = true
		d, err := p.ask(s, at)
		if err != nil {
			continue
		}
		if !ok || blocks(&d) {
			out, part, ok = d, at.Name, true
		}
		if blocks(&d) {
			break
		}
	}
	return out, part, ok
}

func blocks(d *diagnose.Diagnosis) bool { return d.Layer != check.None || d.Cause == diagnose.Unknown }

// ask diagnoses the pods of a part, which do not exist.
func (p *planner) ask(s *submission, at *workload.Part) (diagnose.Diagnosis, error) {
	target := at.Maker
	if at.Above != nil && len(s.Parts) == 1 && facts.KindOfObject(at.Above) != nil && !facts.KindOfObject(at.Above).Foreign {
		target = at.Above
	}
	d, err := p.why.Why(facts.RefTo(target))
	if err != nil {
		return d, err
	}
	d.Summary = s.named(d.Summary, target)
	for i := range d.Fixes {
		d.Fixes[i].Edit, d.Fixes[i].Outcome = s.named(d.Fixes[i].Edit, target), s.named(d.Fixes[i].Outcome, target)
	}
	return d, nil
}

// beside diagnoses a pod that waits beside others, which are in the model.
func (p *planner) beside(others []*corev1.Pod, pod *corev1.Pod) (diagnose.Diagnosis, bool) {
	d := diagnose.NewLoaded(p.facts.Beside(append(slices.Clone(others), pod)), p.model)
	d.Until(p.late)
	out, err := d.Why(facts.RefTo(pod))
	return out, err == nil && blocks(&out)
}

// named has a sentence speak of the workload where it speaks of what stands for it.
func (s *submission) named(text string, target facts.Object) string {
	return strings.ReplaceAll(text, facts.RefTo(target).String(), s.Ref.String())
}

// fill takes a diagnosis over.
func (s *submission) fill(r *Workload, d diagnose.Diagnosis) {
	r.Cause, r.Layer, r.Owner, r.Summary, r.ETA = d.Cause, d.Layer, d.Owner, d.Summary, d.ETA
	r.Fixes = nil
	for _, f := range d.Fixes {
		fix := Fix{Side: f.Side, Edit: f.Edit, Command: f.Command, Assumes: f.Assumes, Outcome: f.Outcome, Verified: f.Verified}
		if ops := s.inFile(f.Patch); ops != nil {
			fix.Patch, fix.Command = ops, ""
		} else if f.Side == edit.Workload {
			fix.Command = "" // it is about an object that does not exist yet
		}
		r.Fixes = append(r.Fixes, fix)
	}
	if len(r.Fixes) == 0 && d.Advice != "" {
		r.Fixes = []Fix{{Side: "", Edit: d.Advice}}
	}
}

// inFile are the operations on pods as ones on the object in the file; nil where they are about other objects too.
func (s *submission) inFile(patches []diagnose.Patch) []edit.Op {
	var out []edit.Op
	for _, p := range patches {
		i := slices.IndexFunc(s.Parts, func(at workload.Part) bool {
			return facts.RefTo(at.Maker) == p.On || at.Above != nil && facts.RefTo(at.Above) == p.On && len(s.Parts) == 1
		})
		if i < 0 {
			return nil
		}
		for _, op := range p.Ops {
			path, ok := s.Parts[i].In(op.Path)
			if !ok {
				return nil
			}
			op.Path = path
			out = append(out, slim(s.item.Object, op)...)
		}
	}
	return out
}

// place has the finding point into the object, of which not every pod template is whole.
func (s *submission) place(f *rule.Finding) {
	for i := range s.Parts {
		p := &s.Parts[i]
		field, ok := strings.CutPrefix(f.Path, p.Template)
		if !ok || !p.Bare && !p.Made {
			continue
		}
		f.Path, ok = p.In(field)
		for k := range f.Patch {
			if field, of := strings.CutPrefix(f.Patch[k].Path, p.Template); of {
				f.Patch[k].Path, _ = p.In(field)
			}
		}
		if !ok {
			f.Patch = nil
		}
		return
	}
}
