package lang

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/fleet/shell/budget"
)

// readOptions are the flags of read.
type readOptions struct {
	raw, array bool
	delim      byte
	most       int
	timeout    time.Duration
	prompt     string
	names      []string
}

// read reads a line from standard input into variables.
func (s *Shell) read(args []string) {
	o := readOptions{delim: '\n', most: maxValue, timeout: -1}
	if !s.readFlags(&o, args) {
		s.status = 2
		return
	}
	if o.prompt != "" && s.fds[0].TTY() {
		s.write(2, o.prompt)
	}
	ctx, done := s.foreground()
	defer done()
	if o.timeout >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.clock.Wall(o.timeout))
		defer cancel()
	}
	line, err := s.readLine(ctx, o.delim, o.raw, o.most)
	s.assignRead(o, line)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		s.status = 128 + int(SIGALRM)
	case err != nil && s.status == 0:
		s.status = 1
		if ctx.Err() != nil {
			s.status = Killed(ctx)
		}
	}
}

// readFlags understands -r, -s, -a and -p, -t, -n, -d with a value, joined or apart.
func (s *Shell) readFlags(o *readOptions, args []string) bool {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		cluster := args[0][1:]
		args = args[1:]
		if cluster == "-" {
			break
		}
		for cluster != "" {
			flag := cluster[0]
			cluster = cluster[1:]
			if strings.IndexByte("ptndu", flag) < 0 {
				if !o.plain(flag) {
					s.errorf("read: illegal option -%c", flag)
					return false
				}
				continue
			}
			value := cluster
			cluster = ""
			if value == "" {
				if len(args) == 0 {
					s.errorf("read: option requires an argument -- '%c'", flag)
					return false
				}
				value, args = args[0], args[1:]
			}
			if !o.valued(flag, value) {
				s.errorf("read: -%c: bad value %q", flag, value)
				return false
			}
		}
	}
	for _, name := range args {
		if !syntax.ValidName(name) {
			s.errorf("read: %s: bad variable name", name)
			return false
		}
	}
	o.names = args
	return true
}

func (o *readOptions) plain(flag byte) bool {
	switch flag {
	case 'r':
		o.raw = true
	case 'a':
		o.array = true
	case 's', 'e':
	default:
		return false
	}
	return true
}

func (o *readOptions) valued(flag byte, value string) bool {
	switch flag {
	case 'p':
		o.prompt = value
	case 't':
		sec, err := strconv.ParseFloat(value, 64)
		if err != nil || sec < 0 || sec > 1e9 {
			return false
		}
		o.timeout = time.Duration(sec * float64(time.Second))
	case 'n':
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return false
		}
		o.most = min(n, maxValue)
	case 'd':
		o.delim = 0
		if value != "" {
			o.delim = value[0]
		}
	}
	return true
}

func (s *Shell) assignRead(o readOptions, line string) {
	if s.hold(6*int64(len(line))+fieldCost*separators(line, s.value("IFS"))) != nil {
		s.stopped()
		return
	}
	switch {
	case o.array:
		name := "REPLY"
		if len(o.names) > 0 {
			name = o.names[0]
		}
		s.set(name, expand.Variable{Set: true, Kind: expand.Indexed, List: expand.ReadFields(s.cfg, line, -1, o.raw)})
	case len(o.names) == 0:
		if !o.raw {
			line = unquote(line)
		}
		s.setString("REPLY", line)
	default:
		fields := expand.ReadFields(s.cfg, line, len(o.names), o.raw)
		for i, name := range o.names {
			value := ""
			if i < len(fields) {
				value = fields[i]
			}
			s.setString(name, value)
		}
	}
}

// unquote drops the backslashes that quote a character.
func unquote(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' && i+1 < len(line) {
			i++
		}
		b.WriteByte(line[i])
	}
	return b.String()
}

// mapfile reads lines into an array; -t drops their newlines.
func (s *Shell) mapfile(args []string) {
	name, trim := "MAPFILE", false
	for _, a := range args[1:] {
		switch {
		case a == "-t":
			trim = true
		case strings.HasPrefix(a, "-") || !syntax.ValidName(a):
			s.errorf("%s: %s: not supported", args[0], a)
			s.status = 2
			return
		default:
			name = a
		}
	}
	ctx, done := s.foreground()
	defer done()
	list, err := s.readLines(s.fds[0].Reader(ctx), trim)
	if s.life.Err() != nil {
		s.stopped()
		return
	}
	if err != nil {
		s.fail("%s: %s", args[0], Reason(err))
		return
	}
	s.set(name, expand.Variable{Set: true, Kind: expand.Indexed, List: list})
}

func (s *Shell) readLines(r io.Reader, trim bool) ([]string, error) {
	list := []string{}
	size := 0
	in := s.mem.Lines(r, '\n')
	defer in.Close()
	for {
		line, err := in.Next()
		if size += len(line) + 16; size > maxValue {
			return nil, errMemory
		}
		if err := s.hold(budget.Size(len(line))); err != nil {
			return nil, err
		}
		if trim {
			line = bytes.TrimSuffix(line, []byte("\n"))
		}
		if len(line) > 0 || err == nil {
			list = append(list, string(line))
		}
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
