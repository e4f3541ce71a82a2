package lang

import (
	"errors"
	"maps"
	"slices"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// attributes are what a declaration adds to a variable.
type attributes struct {
	export, readonly, local bool
	kind                    expand.ValueKind // Indexed, Associative or NameRef; Unknown: as written
}

func (a attributes) apply(vr *expand.Variable) {
	vr.Exported = vr.Exported || a.export
	vr.ReadOnly = vr.ReadOnly || a.readonly
	vr.Local = vr.Local || a.local
}

// assign does name=value, name+=value, name[i]=value and name=(...).
func (s *Shell) assign(as *syntax.Assign, attr attributes) bool {
	name := as.Name.Value
	prev, scope := s.vars.find(name)
	if ref, vr := prev.Resolve(environ{s}); ref != "" && attr.kind != expand.NameRef {
		name, prev = ref, vr
	}
	if attr.local && scope != s.vars.top() {
		prev = expand.Variable{}
	}
	vr := prev
	vr.Set = true
	ok := false
	switch {
	case as.Array != nil:
		ok = s.assignArray(&vr, as, attr.kind)
	case as.Index != nil:
		ok = s.assignElement(&vr, as)
	default:
		ok = s.assignString(&vr, as, attr.kind)
	}
	if !ok {
		return false
	}
	attr.apply(&vr)
	if s.opts.xtrace && as.Array == nil && as.Index == nil {
		s.write(2, s.value("PS4")+name+"="+vr.String()+"\n")
	}
	err := s.setVar(name, vr)
	if err == nil {
		return true
	}
	s.fail("%v", err)
	if errors.Is(err, errReadOnly) {
		s.leave()
	}
	return false
}

func (s *Shell) assignString(vr *expand.Variable, as *syntax.Assign, kind expand.ValueKind) bool {
	value, ok := s.literal(as.Value)
	if !ok {
		return false
	}
	if kind == expand.NameRef {
		vr.Kind, vr.Str = expand.NameRef, value
		return true
	}
	switch vr.Kind {
	case expand.Indexed:
		if as.Append {
			value = elementAt(*vr, 0) + value
		}
		setElement(vr, 0, value)
	case expand.Associative:
		vr.Map = cloneMap(vr.Map)
		vr.Map["0"] = value
	default:
		if as.Append {
			value = vr.Str + value
		}
		vr.Kind, vr.Str = expand.String, value
	}
	return true
}

func (s *Shell) assignElement(vr *expand.Variable, as *syntax.Assign) bool {
	s.work(int64(len(vr.List) + 10*len(vr.Map))) // it is copied
	value, ok := s.literal(as.Value)
	if !ok {
		return false
	}
	if vr.Kind == expand.Associative {
		key, ok := s.key(as.Index)
		if !ok {
			return false
		}
		if as.Append {
			value = vr.Map[key] + value
		}
		vr.Map = cloneMap(vr.Map)
		vr.Map[key] = value
		return true
	}
	i, ok := s.index(*vr, as.Index)
	if !ok {
		return false
	}
	if as.Append {
		value = elementAt(*vr, i) + value
	}
	setElement(vr, i, value)
	return true
}

// key is the subscript of an associative array.
func (s *Shell) key(x syntax.ArithmExpr) (string, bool) {
	w, ok := x.(*syntax.Word)
	if !ok {
		s.fail("bad array subscript")
		return "", false
	}
	return s.literal(w)
}

// index is the subscript of an indexed array; negative ones count from its end.
func (s *Shell) index(vr expand.Variable, x syntax.ArithmExpr) (int, bool) {
	i, ok := s.arithm(x)
	if !ok {
		return 0, false
	}
	if i < 0 {
		i += lastIndex(vr) + 1
	}
	if i < 0 {
		s.fail("bad array subscript")
		return 0, false
	}
	return i, true
}

func (s *Shell) assignArray(vr *expand.Variable, as *syntax.Assign, kind expand.ValueKind) bool {
	if kind == expand.Associative || vr.Kind == expand.Associative {
		return s.assignMap(vr, as)
	}
	next := expand.Variable{Kind: expand.Indexed, List: []string{}}
	if as.Append {
		next = indexed(*vr)
	}
	at := lastIndex(next) + 1
	for _, elem := range as.Array.Elems {
		if elem.Index != nil {
			i, ok := s.index(next, elem.Index)
			if !ok {
				return false
			}
			value, ok := s.literal(elem.Value)
			if !ok {
				return false
			}
			put(&next, i, value)
			at = i + 1
			continue
		}
		fields, ok := s.fields([]*syntax.Word{elem.Value})
		if !ok {
			return false
		}
		for _, f := range fields {
			put(&next, at, f)
			at++
		}
	}
	vr.Kind, vr.Str, vr.List, vr.Indexes = expand.Indexed, "", next.List, next.Indexes
	return true
}

func (s *Shell) assignMap(vr *expand.Variable, as *syntax.Assign) bool {
	m := map[string]string{}
	if as.Append {
		m = cloneMap(vr.Map)
	}
	for _, elem := range as.Array.Elems {
		if elem.Index == nil {
			s.fail("%s: must use subscript when assigning associative array", as.Name.Value)
			return false
		}
		key, ok := s.key(elem.Index)
		if !ok {
			return false
		}
		value, ok := s.literal(elem.Value)
		if !ok {
			return false
		}
		m[key] = value
	}
	vr.Kind, vr.Str, vr.List, vr.Indexes, vr.Map = expand.Associative, "", nil, nil, m
	return true
}

// indexed is a variable as an indexed array that may be changed.
func indexed(vr expand.Variable) expand.Variable {
	out := expand.Variable{Kind: expand.Indexed, List: []string{}}
	switch {
	case vr.Kind == expand.Indexed:
		out.List, out.Indexes = slices.Clone(vr.List), slices.Clone(vr.Indexes)
	case vr.Kind == expand.String && vr.Str != "":
		out.List = []string{vr.Str}
	}
	return out
}

// lastIndex is the highest index in use; -1 in an empty array.
func lastIndex(vr expand.Variable) int {
	if vr.Kind == expand.String {
		return 0
	}
	if n := len(vr.Indexes); n > 0 {
		return vr.Indexes[n-1]
	}
	return len(vr.List) - 1
}

func elementAt(vr expand.Variable, i int) string {
	switch {
	case vr.Kind == expand.String && i == 0:
		return vr.Str
	case vr.Indexes != nil:
		if at, ok := slices.BinarySearch(vr.Indexes, i); ok {
			return vr.List[at]
		}
	case i < len(vr.List):
		return vr.List[i]
	}
	return ""
}

// setElement sets one element, on a copy of the list.
func setElement(vr *expand.Variable, i int, value string) {
	a := indexed(*vr)
	put(&a, i, value)
	vr.Kind, vr.Str, vr.List, vr.Indexes = expand.Indexed, "", a.List, a.Indexes
}

// put sets one element of an array that is not yet shared. An array with holes keeps the
// index of every element, sorted; one without keeps none.
func put(a *expand.Variable, i int, value string) {
	if a.Indexes == nil && i <= len(a.List) {
		if i == len(a.List) {
			a.List = append(a.List, "")
		}
		a.List[i] = value
		return
	}
	if a.Indexes == nil {
		for k := range a.List {
			a.Indexes = append(a.Indexes, k)
		}
	}
	at, found := slices.BinarySearch(a.Indexes, i)
	if found {
		a.List[at] = value
	} else {
		a.Indexes = slices.Insert(a.Indexes, at, i)
		a.List = slices.Insert(a.List, at, value)
	}
}

// removeElement is unset 'name[i]'.
func removeElement(vr *expand.Variable, i int) {
	a := indexed(*vr)
	if a.Indexes == nil {
		for k := range a.List {
			a.Indexes = append(a.Indexes, k)
		}
	}
	if at, found := slices.BinarySearch(a.Indexes, i); found {
		a.Indexes = slices.Delete(a.Indexes, at, at+1)
		a.List = slices.Delete(a.List, at, at+1)
	}
	vr.List, vr.Indexes = a.List, a.Indexes
}

// sortedKeys are the keys of an associative array in a stable order.
func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
