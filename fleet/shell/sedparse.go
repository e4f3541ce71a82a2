package shell

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/shell/internal/regex"
)

// sedParser reads a script.
type sedParser struct {
	text     string
	extended bool
	mem      *budget.Scope
	spend    func(steps int) error
}

// sedCommandCost is what a command of a script takes, its expression not included.
const sedCommandCost = 512

// regexpSteps is what compiling an expression takes.
const regexpSteps = 10

func (p *sedParser) parse() ([]*sedCommand, error) {
	var script []*sedCommand
	for {
		p.text = strings.TrimLeft(p.text, " \t\n;")
		if p.text == "" {
			return script, nil
		}
		if p.text[0] == '#' {
			_, p.text, _ = strings.Cut(p.text, "\n")
			continue
		}
		if err := p.mem.Take(sedCommandCost); err != nil {
			return nil, err
		}
		if err := p.spend(regexpSteps); err != nil {
			return nil, err
		}
		cmd, err := p.command()
		if err != nil {
			return nil, err
		}
		script = append(script, cmd)
	}
}

func (p *sedParser) command() (*sedCommand, error) {
	cmd := &sedCommand{nth: 1}
	var err error
	if cmd.from, err = p.address(); err != nil {
		return nil, err
	}
	if cmd.from != nil && strings.HasPrefix(p.text, ",") {
		p.text = p.text[1:]
		if cmd.to, err = p.address(); err != nil {
			return nil, err
		}
		if cmd.to == nil {
			return nil, errors.New("unexpected ','")
		}
	}
	p.text = strings.TrimLeft(p.text, " \t")
	if strings.HasPrefix(p.text, "!") {
		cmd.negate = true
		p.text = strings.TrimLeft(p.text[1:], " \t")
	}
	if p.text == "" {
		return nil, errors.New("missing command")
	}
	cmd.verb = p.text[0]
	p.text = p.text[1:]
	switch cmd.verb {
	case 'p', 'd', 'q', '=':
		return cmd, nil
	case 's':
		return cmd, p.substitution(cmd)
	case 'y':
		return cmd, p.transliteration(cmd)
	case 'a', 'i', 'c':
		line, rest, _ := strings.Cut(strings.TrimLeft(p.text, " \t"), "\n")
		if line == `\` {
			line, rest, _ = strings.Cut(rest, "\n")
		}
		cmd.text, p.text = strings.TrimLeft(strings.TrimPrefix(line, `\`), " \t"), rest
		return cmd, nil
	}
	return nil, fmt.Errorf("unsupported command %c", cmd.verb)
}

func (p *sedParser) address() (*sedAddress, error) {
	switch {
	case p.text == "":
		return nil, nil
	case p.text[0] == '$':
		p.text = p.text[1:]
		return &sedAddress{last: true}, nil
	case p.text[0] == '/':
		expr, err := p.delimited('/')
		if err != nil {
			return nil, err
		}
		re, err := p.regexp(expr, "")
		return &sedAddress{re: re}, err
	}
	end := 0
	for end < len(p.text) && p.text[end] >= '0' && p.text[end] <= '9' {
		end++
	}
	if end == 0 {
		return nil, nil
	}
	n, err := strconv.Atoi(p.text[:end])
	p.text = p.text[end:]
	return &sedAddress{line: n}, err
}

// delimited reads the part between the delimiter that p.text starts with and the next one.
func (p *sedParser) delimited(delim byte) (string, error) {
	var b strings.Builder
	for i := 1; i < len(p.text); i++ {
		switch ch := p.text[i]; {
		case ch == delim:
			p.text = p.text[i+1:]
			return b.String(), nil
		case ch == '\\' && i+1 < len(p.text) && p.text[i+1] == delim:
			b.WriteByte(delim)
			i++
		case ch == '\\' && i+1 < len(p.text):
			b.WriteString(p.text[i : i+2])
			i++
		default:
			b.WriteByte(ch)
		}
	}
	return "", errors.New("unterminated command")
}

func (p *sedParser) regexp(expr, flags string) (*regex.Regexp, error) {
	if !p.extended {
		expr = basicRegexp(expr)
	}
	if strings.ContainsAny(flags, "iI") {
		expr = "(?i)" + expr
	}
	re, err := regex.Compile(expr, p.mem)
	if err != nil {
		return nil, fmt.Errorf("bad regex: %w", err)
	}
	return re, nil
}

func (p *sedParser) twoParts() (a, b string, err error) {
	if p.text == "" {
		return "", "", errors.New("unterminated command")
	}
	delim := p.text[0]
	if a, err = p.delimited(delim); err != nil {
		return "", "", err
	}
	p.text = string(delim) + p.text
	b, err = p.delimited(delim)
	return a, b, err
}

func (p *sedParser) substitution(cmd *sedCommand) error {
	expr, with, err := p.twoParts()
	if err != nil {
		return err
	}
	end := strings.IndexAny(p.text, ";\n }")
	if end < 0 {
		end = len(p.text)
	}
	flags := p.text[:end]
	p.text = p.text[end:]
	for _, f := range flags {
		switch {
		case f == 'g':
			cmd.global = true
		case f == 'p':
			cmd.print = true
		case f == 'i' || f == 'I':
		case f >= '1' && f <= '9':
			cmd.nth = int(f - '0')
		default:
			return fmt.Errorf("unknown option to s: %c", f)
		}
	}
	cmd.text = with
	cmd.re, err = p.regexp(expr, flags)
	return err
}

func (p *sedParser) transliteration(cmd *sedCommand) error {
	a, b, err := p.twoParts()
	if err != nil {
		return err
	}
	if err := p.mem.Take(64 * int64(len(a)+len(b))); err != nil {
		return err
	}
	from, to := []rune(a), []rune(b)
	if len(from) != len(to) {
		return errors.New("strings for y are different lengths")
	}
	cmd.pairs = map[rune]rune{}
	for i := range from {
		cmd.pairs[from[i]] = to[i]
	}
	return nil
}
