package lang

import "slices"

// options are what set and shopt switch.
type options struct {
	allexport, errexit, noclobber, noglob, noexec, nounset, xtrace, pipefail bool
	dotglob, extglob, globstar, nocaseglob, nullglob                         bool
}

// setOptions are the options of set by name and letter; those with a nil field are
// accepted and do nothing here.
func (o *options) table() []option {
	return []option{
		{"allexport", 'a', &o.allexport},
		{"errexit", 'e', &o.errexit},
		{"hashall", 'h', nil},
		{"monitor", 'm', nil},
		{"noclobber", 'C', &o.noclobber},
		{"noexec", 'n', &o.noexec},
		{"noglob", 'f', &o.noglob},
		{"nounset", 'u', &o.nounset},
		{"pipefail", 0, &o.pipefail},
		{"posix", 0, nil},
		{"verbose", 'v', nil},
		{"xtrace", 'x', &o.xtrace},
	}
}

type option struct {
	name   string
	letter byte
	on     *bool
}

func (o *options) setName(name string, on bool) bool {
	return set(o.table(), on, func(opt option) bool { return opt.name == name })
}

func (o *options) setLetter(letter byte, on bool) bool {
	return set(o.table(), on, func(opt option) bool { return opt.letter == letter && letter != 0 })
}

func set(table []option, on bool, match func(option) bool) bool {
	i := slices.IndexFunc(table, match)
	if i < 0 {
		return false
	}
	if p := table[i].on; p != nil {
		*p = on
	}
	return true
}

// flags is the value of $-.
func (o *options) flags() string {
	var letters []byte
	for _, opt := range o.table() {
		if opt.letter != 0 && opt.on != nil && *opt.on {
			letters = append(letters, opt.letter)
		}
	}
	slices.Sort(letters)
	return string(letters)
}

// shopt finds one of bash's options.
func (o *options) shopt(name string) *bool {
	switch name {
	case "dotglob":
		return &o.dotglob
	case "extglob":
		return &o.extglob
	case "globstar":
		return &o.globstar
	case "nocaseglob":
		return &o.nocaseglob
	case "nullglob":
		return &o.nullglob
	}
	return nil
}

// SetOption switches one of set's options by letter or by name, as sh's own flags do.
func (s *Shell) SetOption(name string, on bool) bool {
	defer s.configure()
	if len(name) == 1 {
		return s.opts.setLetter(name[0], on)
	}
	return s.opts.setName(name, on)
}
