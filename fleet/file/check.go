package file

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/gpu"
)

// Check says everything that is wrong with one pool that went through v1alpha1.Default: what
// v1alpha1.Validate says, and GPUs that nobody makes.
func Check(p *v1alpha1.Pool) field.ErrorList {
	errs := v1alpha1.Validate(p)
	spec := field.NewPath("spec")
	for i, g := range p.Spec.GPUs {
		model, known := gpu.Lookup(g.Model)
		if !known && g.Memory == nil && g.Model != "" {
			at := spec.Child("gpus").Index(i).Child("model")
			errs = append(errs, field.Invalid(at, g.Model, unknownModel(g.Model)))
		}
		linked := p.Spec.NVLink == v1alpha1.NVLinkPairs || p.Spec.NVLink == v1alpha1.NVLinkFull
		if known && linked && model.NVLinks == 0 {
			errs = append(errs, field.Invalid(spec.Child("nvlink"), string(p.Spec.NVLink),
				"must be none or auto, since "+model.Name+" has no NVLink"))
		}
	}
	return append(errs, checkMIG(&p.Spec, spec.Child("mig"))...)
}

// checkMIG refuses MIG where no GPU can be cut: the MIG manager would fail on every node.
func checkMIG(s *v1alpha1.PoolSpec, at *field.Path) field.ErrorList {
	if s.MIG == (v1alpha1.MIG{}) || len(s.GPUs) == 0 {
		return nil
	}
	var names []string
	for _, g := range s.GPUs {
		if m, known := gpu.Lookup(g.Model); known && m.MIG {
			return nil
		}
		names = append(names, g.Model)
	}
	return field.ErrorList{field.Forbidden(at, "has no meaning here, since "+strings.Join(names, " and ")+" cannot be cut into MIG instances")}
}

func unknownModel(name string) string {
	var names []string
	for _, m := range gpu.Models() {
		names = append(names, m.Name)
	}
	if near := suggest(name, names); near != "" {
		return "unknown model; give its memory, or use a known one" + near
	}
	return "unknown model; give its memory, or use one of " + strings.Join(names, ", ")
}

// check reports what is wrong with a decoded pool, less what only follows from mistakes that
// are reported already: a field that could not be read, or one whose name is misspelt, is
// not also missing.
func (d *decoder) check(p *v1alpha1.Pool) {
	for _, err := range Check(p) {
		missing := err.Type == field.ErrorTypeRequired || err.BadValue == ""
		if d.follows(err.Field) || missing && d.typos[d.lines.nearest(err.Field)] {
			continue
		}
		d.parser.fail(d.lines.of(err.Field), d.prefix+err.Field, message(err))
	}
}

// follows reports whether the field, or one above or below it, could not be read.
func (d *decoder) follows(path string) bool {
	for wrong := range d.wrong {
		if path == wrong || within(path, wrong) || within(wrong, path) {
			return true
		}
	}
	return false
}

// within reports whether the path inner is below outer.
func within(inner, outer string) bool {
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && rest != "" && (rest[0] == '.' || rest[0] == '[')
}

// crossCheck reports names that two pools share.
func (p *parser) crossCheck() {
	pools := map[string]int{} // name to line
	nodes := map[string]string{}
	for _, at := range p.pools {
		name, line := at.pool.Name, at.lines.of("metadata.name")
		if first, taken := pools[name]; taken && name != "" {
			p.fail(line, "metadata.name", fmt.Sprintf("pool %q is on line %d already; give each pool its own name", name, first))
			continue
		}
		pools[name] = line
		if at.sound {
			p.claimNodes(at, nodes)
		}
	}
}

// claimNodes enters a pool's nodes into owners, which maps a node to its pool, and reports
// the first that another pool has.
func (p *parser) claimNodes(at located, owners map[string]string) {
	for i := range int(*at.pool.Spec.Nodes) {
		node := at.pool.NodeName(i)
		owner, taken := owners[node]
		if !taken {
			owners[node] = at.pool.Name
			continue
		}
		path := "metadata.name"
		if at.pool.Spec.NodeNames != nil {
			path = fmt.Sprintf("spec.nodeNames[%d]", i)
		}
		p.fail(at.lines.of(path), path, fmt.Sprintf("node %q is in pool %q already; a node is in one pool", node, owner))
		return
	}
}
