package lang

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// declaration is what export, readonly, local, declare and typeset were asked for.
type declaration struct {
	attr     attributes
	unexport bool
	global   bool
	print    bool
	funcs    bool
	names    []*syntax.Assign
}

// declClause is a declaration as the parser sees it: assignments are not split into fields.
func (s *Shell) declClause(cmd *syntax.DeclClause) {
	s.status = 0
	d := declaration{}
	for _, as := range cmd.Args {
		if as.Name != nil {
			d.names = append(d.names, as)
			continue
		}
		fields, ok := s.fields([]*syntax.Word{as.Value})
		if !ok {
			return
		}
		for _, f := range fields {
			if !s.declareWord(&d, cmd.Variant.Value, f) {
				return
			}
		}
	}
	s.declare(cmd.Variant.Value, d)
}

// declareBuiltin is a declaration reached as an ordinary command, as in "command export".
func (s *Shell) declareBuiltin(args []string) {
	s.status = 0
	d := declaration{}
	for _, a := range args[1:] {
		if !s.declareWord(&d, args[0], a) {
			return
		}
	}
	s.declare(args[0], d)
}

// declareWord takes one argument: a flag, a name or name=value.
func (s *Shell) declareWord(d *declaration, variant, word string) bool {
	if len(word) > 1 && (word[0] == '-' || word[0] == '+') {
		if word == "--" {
			return true
		}
		for _, flag := range word[1:] {
			if !d.flag(word[0] == '-', flag) {
				s.errorf("%s: invalid option -%c", variant, flag)
				s.status = 2
				return false
			}
		}
		return true
	}
	if s.hold(2*tokenCost) != nil {
		return s.stopped()
	}
	name, value, set := strings.Cut(word, "=")
	if !syntax.ValidName(name) {
		s.fail("%s: %s: bad variable name", variant, word)
		return false
	}
	as := &syntax.Assign{Name: &syntax.Lit{Value: name}, Naked: !set}
	if set {
		as.Value = &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{Value: value}}}
	}
	d.names = append(d.names, as)
	return true
}

func (d *declaration) flag(on bool, flag rune) bool {
	switch flag {
	case 'x':
		d.attr.export, d.unexport = on, !on
	case 'n':
		if on {
			d.attr.kind = expand.NameRef
		}
	case 'r':
		d.attr.readonly = on
	case 'a':
		d.attr.kind = expand.Indexed
	case 'A':
		d.attr.kind = expand.Associative
	case 'g':
		d.global = true
	case 'p':
		d.print = true
	case 'f', 'F':
		d.funcs = true
	case 'i', 'l', 'u', 't':
	default:
		return false
	}
	return true
}

func (s *Shell) declare(variant string, d declaration) {
	switch variant {
	case "export":
		d.attr.export = true
		if d.attr.kind == expand.NameRef { // export -n
			d.attr, d.unexport = attributes{}, true
		}
	case "readonly":
		d.attr.readonly = true
	case "local":
		if s.funcDepth == 0 {
			s.fail("local: not in a function")
			return
		}
		d.attr.local = true
	case "nameref":
		d.attr.kind = expand.NameRef
	default:
		d.attr.local = s.funcDepth > 0 && !d.global
	}
	switch {
	case d.funcs:
		s.printFunctions(d.names)
	case d.print || len(d.names) == 0:
		s.printVars(variant, d)
	default:
		for _, as := range d.names {
			if !s.declareName(as, d) {
				return
			}
		}
	}
}

func (s *Shell) declareName(as *syntax.Assign, d declaration) bool {
	if !as.Naked {
		return s.assign(as, d.attr)
	}
	name := as.Name.Value
	vr, scope := s.vars.find(name)
	if d.unexport {
		if vr.Declared() {
			vr.Exported = false
			s.vars.scopes[scope][name] = vr
		}
		return true
	}
	switch {
	case d.attr.local && scope != s.vars.top():
		vr = expand.Variable{Kind: d.attr.kind}
	case vr.Kind == expand.Unknown:
		vr.Kind = d.attr.kind
	default:
		vr.Kind = expand.KeepValue
	}
	d.attr.apply(&vr)
	if vr.Kind == expand.Unknown && d.attr.local { // declared here, not yet set
		return s.vars.store(s.vars.top(), name, vr) == nil
	}
	return s.set(name, vr)
}

func (s *Shell) printFunctions(names []*syntax.Assign) {
	for _, as := range names {
		body := s.funcs[as.Name.Value]
		if body == nil {
			s.status = 1
			continue
		}
		var b strings.Builder
		_ = syntax.NewPrinter().Print(&b, body)
		s.write(1, fmt.Sprintf("%s()\n%s\n", as.Name.Value, b.String()))
	}
}

// printVars lists variables the way they could be declared again.
func (s *Shell) printVars(variant string, d declaration) {
	if s.hold(8*s.vars.size) != nil {
		s.stopped()
		return
	}
	all := s.vars.all()
	names := slices.Sorted(maps.Keys(all))
	if len(d.names) > 0 {
		names = nil
		for _, as := range d.names {
			names = append(names, as.Name.Value)
		}
	}
	for _, name := range names {
		vr, ok := all[name]
		if !ok {
			s.fail("%s: %s: not found", variant, name)
			continue
		}
		if len(d.names) == 0 && (d.attr.export && !vr.Exported || d.attr.readonly && !vr.ReadOnly) {
			continue
		}
		s.write(1, declared(variant, name, vr))
	}
}

func declared(variant, name string, vr expand.Variable) string {
	head := variant + " "
	if variant != "export" && variant != "readonly" {
		flags := vr.Flags()
		if flags == "" {
			flags = "-"
		}
		head = "declare -" + flags + " "
	}
	if !vr.Set {
		return head + name + "\n"
	}
	return head + name + "=" + quotedValue(vr) + "\n"
}

func quotedValue(vr expand.Variable) string {
	var parts []string
	switch vr.Kind {
	case expand.Indexed:
		for i, v := range vr.List {
			if vr.Indexes != nil {
				i = vr.Indexes[i]
			}
			parts = append(parts, fmt.Sprintf("[%d]=%s", i, doubleQuote(v)))
		}
	case expand.Associative:
		for _, k := range sortedKeys(vr.Map) {
			parts = append(parts, fmt.Sprintf("[%s]=%s", k, doubleQuote(vr.Map[k])))
		}
	default:
		return doubleQuote(vr.Str)
	}
	return "(" + strings.Join(parts, " ") + ")"
}

func doubleQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(s) + `"`
}
