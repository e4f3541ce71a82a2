package lang

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/berth-dev/berth/fleet/shell/budget"
)

// maxWidth bounds the width and precision that printf pads to.
const maxWidth = 4096

// echo prints its arguments; -n leaves out the newline, -e reads escapes.
func (s *Shell) echo(args []string) {
	newline, escapes := true, false
	for len(args) > 0 && isEchoFlag(args[0]) {
		for _, f := range args[0][1:] {
			switch f {
			case 'n':
				newline = false
			case 'e':
				escapes = true
			case 'E':
				escapes = false
			}
		}
		args = args[1:]
	}
	if !s.holdAll(args, 3) {
		return
	}
	text := strings.Join(args, " ")
	if escapes {
		var stop bool
		if text, stop = unescape(text, true); stop {
			newline = false
		}
	}
	if newline {
		text += "\n"
	}
	s.write(1, text)
}

func isEchoFlag(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && strings.Trim(arg[1:], "neE") == ""
}

// unescape reads backslash escapes. With octal zero, octal numbers are \0nnn as in echo and
// %b, otherwise \nnn as in a format. stop: \c was met, output ends there.
func unescape(text string, zero bool) (out string, stop bool) {
	if !strings.Contains(text, `\`) {
		return text, false
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		if text[i] == 'c' {
			return b.String(), true
		}
		i += unescapeOne(&b, text[i:], zero) - 1
	}
	return b.String(), false
}

// unescapeOne writes what the escape at the start of text (without its backslash) stands
// for, and returns how long it is.
func unescapeOne(b byteWriter, text string, zero bool) int {
	const from, to = `abefnrtv\`, "\a\b\x1b\f\n\r\t\v\\"
	if i := strings.IndexByte(from, text[0]); i >= 0 {
		_ = b.WriteByte(to[i])
		return 1
	}
	switch c := text[0]; {
	case c == 'x':
		if n := digits(text[1:], 2, 16); n > 0 {
			v, _ := strconv.ParseUint(text[1:1+n], 16, 8)
			_ = b.WriteByte(byte(v))
			return 1 + n
		}
	case c == 'u' || c == 'U':
		if n := digits(text[1:], 8, 16); n > 0 {
			v, _ := strconv.ParseUint(text[1:1+n], 16, 32)
			_, _ = b.WriteString(string(rune(v)))
			return 1 + n
		}
	case c >= '0' && c <= '7':
		skip := 0
		if zero && c == '0' {
			skip = 1
		}
		n := digits(text[skip:], 3, 8)
		v, _ := strconv.ParseUint("0"+text[skip:skip+n], 8, 16)
		_ = b.WriteByte(byte(v))
		return skip + n
	}
	_ = b.WriteByte('\\')
	_ = b.WriteByte(text[0])
	return 1
}

// byteWriter is a buffer of either kind.
type byteWriter interface {
	io.ByteWriter
	io.StringWriter
}

// digits counts the digits of a base at the start of text, at most most.
func digits(text string, most, base int) int {
	n := 0
	for n < len(text) && n < most {
		if _, err := strconv.ParseUint(text[n:n+1], base, 8); err != nil {
			break
		}
		n++
	}
	return n
}

// printf formats its arguments; the format is used again while there are arguments left.
func (s *Shell) printf(args []string) {
	if len(args) > 2 && args[0] == "-v" {
		f := formatter{shell: s, format: args[2], args: args[3:], out: s.mem.Buffer()}
		defer f.out.Reset()
		if text, ok := f.run(); ok {
			s.setString(args[1], text)
		}
		return
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		s.errorf("usage: printf format [arg ...]")
		s.status = 2
		return
	}
	f := formatter{shell: s, format: args[0], args: args[1:], out: s.mem.Buffer()}
	defer f.out.Reset()
	text, ok := f.run()
	if !ok {
		return
	}
	s.write(1, text)
	if f.err != nil {
		s.fail("printf: %v", f.err)
	}
}

type formatter struct {
	shell  *Shell
	format string
	args   []string
	out    *budget.Buffer
	err    error
	stop   bool // \c was met
}

// run formats everything; it is false if there was no memory for it.
func (f *formatter) run() (string, bool) {
	for {
		before := len(f.args)
		f.once()
		if f.stop || f.err != nil || len(f.args) == 0 || len(f.args) == before {
			break
		}
	}
	if f.shell.life.Err() != nil || f.shell.hold(int64(f.out.Len())) != nil {
		return "", f.shell.stopped()
	}
	return string(f.out.Bytes()), true
}

// printf adds to the output, up to what may be printed at once.
func (f *formatter) printf(format string, args ...any) {
	fmt.Fprintf(f.out, format, args...)
	if f.out.Len() > maxFields || f.shell.life.Err() != nil {
		f.err, f.stop = errMemory, true
	}
}

func (f *formatter) once() {
	if f.out.Len() > maxFields {
		f.err, f.stop = errMemory, true
	}
	for i := 0; i < len(f.format) && !f.stop; i++ {
		switch c := f.format[i]; {
		case c == '\\' && i+1 < len(f.format):
			if f.format[i+1] == 'c' {
				f.stop = true
				return
			}
			i += unescapeOne(f.out, f.format[i+1:], false)
		case c == '%' && i+1 < len(f.format) && f.format[i+1] == '%':
			_ = f.out.WriteByte('%')
			i++
		case c == '%':
			n := f.directive(f.format[i+1:])
			if n == 0 {
				return
			}
			i += n
		default:
			_ = f.out.WriteByte(c)
		}
	}
}

func (f *formatter) next() string {
	if len(f.args) == 0 {
		return ""
	}
	a := f.args[0]
	f.args = f.args[1:]
	return a
}

// directive formats one argument as the directive at the start of text says, and returns
// the directive's length; 0 if it is not valid.
func (f *formatter) directive(text string) int {
	spec := "%"
	i := 0
	for ; i < len(text); i++ {
		c := text[i]
		if c == '*' {
			spec += strconv.Itoa(int(integer(f.next())))
			continue
		}
		if !strings.ContainsRune("-+ #0123456789.", rune(c)) {
			break
		}
		spec += string(c)
	}
	if i == len(text) || tooWide(spec) {
		f.err = errors.New("bad format directive")
		return 0
	}
	if !f.convert(spec, text[i]) {
		f.err = fmt.Errorf("%%%c: invalid directive", text[i])
		return 0
	}
	return i + 1
}

// tooWide says whether a number in a directive is beyond maxWidth.
func tooWide(spec string) bool {
	for _, part := range strings.FieldsFunc(spec, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(part); err != nil || n > maxWidth {
			return true
		}
	}
	return false
}

func (f *formatter) convert(spec string, verb byte) bool {
	switch verb {
	case 's':
		f.printf(spec+"s", f.next())
	case 'b':
		text, stop := unescape(f.next(), true)
		f.printf(spec+"s", text)
		f.stop = stop
	case 'q':
		if f.shell.hold(10*int64(len(f.args0()))) != nil {
			f.stop = true
			return true
		}
		f.printf(spec+"s", strconv.Quote(f.next()))
	case 'c':
		_, n := utf8.DecodeRuneInString(f.args0())
		f.printf(spec+"s", f.next()[:n])
	case 'd', 'i':
		f.printf(spec+"d", f.number())
	case 'u':
		f.printf(spec+"d", uint64(f.number()))
	case 'o', 'x', 'X':
		f.printf(spec+string(verb), uint64(f.number()))
	case 'e', 'E', 'f', 'F', 'g', 'G':
		v, err := strconv.ParseFloat(strings.TrimSpace(f.args0()), 64)
		if err != nil && f.args0() != "" {
			f.err = fmt.Errorf("%s: invalid number", f.args0())
		}
		f.next()
		f.printf(spec+string(verb), v)
	default:
		return false
	}
	return true
}

func (f *formatter) args0() string {
	if len(f.args) == 0 {
		return ""
	}
	return f.args[0]
}

// number is the next argument as an integer; 'c is the code of a character.
func (f *formatter) number() int64 {
	a := f.next()
	if len(a) > 1 && (a[0] == '\'' || a[0] == '"') {
		r, _ := utf8.DecodeRuneInString(a[1:])
		return int64(r)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(a), 0, 64)
	if err != nil && a != "" {
		f.err = fmt.Errorf("%s: invalid number", a)
	}
	return n
}

// integer is text as a number, 0 if it is none.
func integer(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 0, 64)
	return n
}
