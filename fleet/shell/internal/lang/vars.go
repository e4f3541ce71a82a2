package lang

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"

	"github.com/berth-dev/berth/fleet/shell/budget"
)

// Limits of what variables hold, in bytes of names and values.
const (
	maxValue = 4 << 20
	maxVars  = 16 << 20
)

var (
	errReadOnly = errors.New("is read only")
	errMemory   = errors.New("cannot allocate memory")
)

// vars are a shell's variables: the global ones and, above them, one scope for each running
// function.
type vars struct {
	scopes []map[string]expand.Variable
	size   int64         // what all scopes count
	mem    *budget.Scope // where they count
}

func newVars(env []string, mem *budget.Scope) vars {
	v := vars{scopes: []map[string]expand.Variable{{}}, mem: mem}
	for _, kv := range env {
		name, value, ok := strings.Cut(kv, "=")
		if ok && name != "" {
			_ = v.set(name, expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: value})
		}
	}
	return v
}

// clone copies the variables. The caller has counted their size in mem.
func (v *vars) clone(mem *budget.Scope) vars {
	c := vars{size: v.size, mem: mem, scopes: make([]map[string]expand.Variable, len(v.scopes))}
	for i, scope := range v.scopes {
		c.scopes[i] = maps.Clone(scope)
	}
	return c
}

func cloneMap[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}

// find returns the innermost variable called name and the scope it is in.
func (v *vars) find(name string) (expand.Variable, int) {
	for i, scope := range slices.Backward(v.scopes) {
		if vr, ok := scope[name]; ok {
			return vr, i
		}
	}
	return expand.Variable{}, 0
}

func (v *vars) top() int { return len(v.scopes) - 1 }

func (v *vars) push() { v.scopes = append(v.scopes, map[string]expand.Variable{}) }

func (v *vars) pop() {
	freed := int64(0)
	for name, vr := range v.scopes[v.top()] {
		freed += int64(len(name)) + sizeOf(vr)
	}
	v.size -= freed
	v.mem.Give(freed)
	v.scopes = v.scopes[:v.top()]
}

// set follows expand.WriteEnviron: an unset value removes the variable, KeepValue changes
// only its attributes.
func (v *vars) set(name string, vr expand.Variable) error {
	prev, scope := v.find(name)
	if vr.Local && scope != v.top() {
		prev, scope = expand.Variable{}, v.top()
	}
	if vr.Kind == expand.KeepValue {
		vr.Kind, vr.Str, vr.List, vr.Map, vr.Indexes, vr.Set = prev.Kind, prev.Str, prev.List, prev.Map, prev.Indexes, prev.Set
		vr.ReadOnly = vr.ReadOnly || prev.ReadOnly
	} else if prev.ReadOnly {
		return errReadOnly
	}
	vr.Exported = vr.Exported || prev.Exported && vr.Set
	vr.Local = vr.Local || prev.Local
	return v.store(scope, name, vr)
}

func (v *vars) store(scope int, name string, vr expand.Variable) error {
	old, there := v.scopes[scope][name]
	was, is := int64(0), int64(0)
	if there {
		was = int64(len(name)) + sizeOf(old)
	}
	if vr.Declared() {
		is = int64(len(name)) + sizeOf(vr)
	}
	if is > was && (is > maxValue+varCost || v.size+is-was > maxVars || v.mem.Take(is-was) != nil) {
		return errMemory
	}
	v.mem.Give(max(0, was-is))
	v.size += is - was
	if is == 0 {
		delete(v.scopes[scope], name)
		return nil
	}
	v.scopes[scope][name] = vr
	return nil
}

func sizeOf(vr expand.Variable) int64 {
	n := varCost + int64(len(vr.Str)) + 8*int64(len(vr.Indexes)) + sizeOfList(vr.List)
	for k, s := range vr.Map {
		n += int64(len(k)+len(s)) + mapCost
	}
	return n
}

// exported lists the environment of commands, sorted.
func (v *vars) exported() []string {
	var env []string
	for name, vr := range v.all() {
		if vr.Exported && vr.Set && vr.Kind == expand.String {
			env = append(env, name+"="+vr.Str)
		}
	}
	slices.Sort(env)
	return env
}

// all is every visible variable.
func (v *vars) all() map[string]expand.Variable {
	all := map[string]expand.Variable{}
	for _, scope := range v.scopes {
		maps.Copy(all, scope)
	}
	return all
}

// environ shows a shell's variables and special parameters to the expand package.
type environ struct{ s *Shell }

func (e environ) Each(f func(string, expand.Variable) bool) {
	all := e.s.vars.all()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !f(name, all[name]) {
			return
		}
	}
}

func (e environ) Set(name string, vr expand.Variable) error { return e.s.setVar(name, vr) }

func (e environ) Get(name string) expand.Variable {
	if value, ok := e.s.special(name); ok {
		return expand.Variable{Set: true, Kind: expand.String, Str: value}
	}
	switch name {
	case "@", "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: append([]string{}, e.s.params...)}
	}
	vr, _ := e.s.vars.find(name)
	return vr
}

// special is the value of parameters that are not variables.
func (s *Shell) special(name string) (string, bool) {
	switch name {
	case "#":
		return strconv.Itoa(len(s.params)), true
	case "?":
		return strconv.Itoa(s.status), true
	case "$":
		return strconv.Itoa(s.pid), true
	case "!":
		return strconv.Itoa(s.lastBG), s.lastBG != 0
	case "-":
		return s.opts.flags(), true
	case "0":
		return s.name, true
	case "RANDOM":
		s.random = s.random*6364136223846793005 + 1442695040888963407
		return strconv.Itoa(int(s.random>>33) & 0x7fff), true
	case "SECONDS":
		return strconv.Itoa(int(s.clock.Simulated(time.Since(s.started)).Seconds())), true
	case "EPOCHSECONDS":
		return strconv.FormatInt(time.Now().Unix(), 10), true
	}
	if user, ok := strings.CutPrefix(name, "HOME "); ok {
		return home(user), true // always answered: otherwise expand asks the host
	}
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n <= len(s.params) {
		return s.params[n-1], true
	}
	return "", false
}

// home is the home directory of a user of the container; ~name of others stays as it is.
func home(user string) string {
	switch user {
	case "root":
		return "/root"
	case "nobody":
		return "/"
	}
	return "~" + user
}

// defaultVars sets what a shell sets itself. Nothing here comes from the host.
func (s *Shell) defaultVars() {
	s.random = rand.Uint64()
	s.setDefault("HOME", "/root")
	s.setDefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	s.setString("PWD", s.dir)
	s.setString("IFS", " \t\n")
	s.setString("OPTIND", "1")
	s.setString("PPID", "0")
	s.setString("UID", "0")
	s.setString("EUID", "0")
	s.setString("PS4", "+ ")
	if s.interactive {
		s.setDefault("PS1", "# ")
		s.setDefault("PS2", "> ")
	}
}

func (s *Shell) setDefault(name, value string) {
	if vr, _ := s.vars.find(name); !vr.Set {
		s.setString(name, value)
	}
}

// setString sets a variable to a string, reporting what goes wrong.
func (s *Shell) setString(name, value string) bool {
	return s.set(name, expand.Variable{Set: true, Kind: expand.String, Str: value})
}

func (s *Shell) set(name string, vr expand.Variable) bool {
	if err := s.setVar(name, vr); err != nil {
		s.fail("%v", err)
		return false
	}
	return true
}

func (s *Shell) setVar(name string, vr expand.Variable) error {
	if s.opts.allexport {
		vr.Exported = true
	}
	err := s.vars.set(name, vr)
	if err == nil {
		return nil
	}
	if errors.Is(err, errMemory) {
		s.flow, s.status = flowExit, 2
	}
	return &varError{name, err}
}

type varError struct {
	name string
	err  error
}

func (e *varError) Error() string { return e.name + ": " + e.err.Error() }
func (e *varError) Unwrap() error { return e.err }

// value is a variable's value as a string.
func (s *Shell) value(name string) string { return environ{s}.Get(name).String() }
